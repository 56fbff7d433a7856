/** A SQLite file that another person made, with everything that SQLite would execute, apply or wait for. */
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

let folder: string;
let file: string;
beforeEach(async () => {
  folder = await makeFolder();
  file = join(folder, "store.db");
});
afterEach(() => removeFolder(folder));

const url = (): string => `sqlite:${file}`;
const MODES = [{ readOnly: true }, { readOnly: false }];

async function createStore(): Promise<void> {
  const sp = await Savepoint.open(url());
  await sp.session("s").save({ n: 1 });
  await sp.search("x");
  await sp.close();
}

async function execute(sql: string): Promise<void> {
  const database = await openDatabase(file);
  database.exec(sql);
  database.close();
}

/** A rollback journal that names a super-journal, as SQLite writes it for a transaction over several files. */
function journalNaming(target: string): Buffer {
  const header = Buffer.alloc(512);
  Buffer.from("d9d505f920a163d7", "hex").copy(header);
  header.writeUInt32BE(0, 8);
  header.writeUInt32BE(1, 16);
  header.writeUInt32BE(512, 20);
  header.writeUInt32BE(4096, 24);
  const name = Buffer.from(target);
  const trailer = Buffer.alloc(16);
  trailer.writeUInt32BE(name.length, 0);
  trailer.writeUInt32BE(
    name.reduce((sum, byte) => sum + byte, 0),
    4,
  );
  Buffer.from("d9d505f920a163d7", "hex").copy(trailer, 8);
  const page = Buffer.alloc(4);
  page.writeUInt32BE(0x40000000 / 4096 + 1);
  return Buffer.concat([header, page, name, trailer]);
}

describe("a rollback journal beside a store", () => {
  it.each(MODES)("never deletes the file that it names: %o", async (options) => {
    await createStore();
    const victim = join(folder, "victim");
    // SQLite deletes a super-journal that no journal needs any more.
    writeFileSync(victim, Buffer.from(`${file}-journal\0`));
    writeFileSync(`${file}-journal`, journalNaming(victim));
    const before = readFileSync(file);
    await expect(Savepoint.open(url(), options)).rejects.toMatchObject({
      code: "DAMAGED",
      details: { path: `${file}-journal` },
      message: expect.stringContaining("delete or move it") as string,
    });
    expect(existsSync(victim)).toBe(true);
    expect(existsSync(`${file}-journal`)).toBe(true);
    expect(readFileSync(file).equals(before)).toBe(true);
  });

  it.each(MODES)("is not applied to a database in WAL mode: %o", async (options) => {
    await createStore();
    writeFileSync(`${file}-journal`, Buffer.alloc(2_000, 1));
    await expect(Savepoint.open(url(), options)).rejects.toMatchObject({ code: "DAMAGED" });
    expect(readFileSync(`${file}-journal`)).toHaveLength(2_000);
  });

  it("is accepted if it is empty", async () => {
    await createStore();
    writeFileSync(`${file}-journal`, "");
    const sp = await Savepoint.open(url(), { readOnly: true });
    expect((await sp.session("s").latest())?.state).toEqual({ n: 1 });
    await sp.close();
  });
});

describe("a store whose schema executes SQL of another person", () => {
  const ADDITIONS = {
    "a trigger":
      "CREATE TRIGGER spy AFTER INSERT ON savepoint_record BEGIN DELETE FROM savepoint_record WHERE key <> NEW.key; END",
    "a trigger with the name of one of ours": `DROP TRIGGER savepoint_text_remove;
      CREATE TRIGGER savepoint_text_remove AFTER INSERT ON savepoint_buffer BEGIN DELETE FROM savepoint_record; END`,
    "a view in the place of a table": `ALTER TABLE savepoint_blob RENAME TO other;
      CREATE VIEW savepoint_blob AS WITH RECURSIVE c(hash) AS (SELECT 'a' UNION ALL SELECT hash FROM c) SELECT * FROM c`,
    "a generated column in the table with the format": `DROP TABLE savepoint_meta;
      CREATE TABLE savepoint_meta (key TEXT PRIMARY KEY, value AS (hex(zeroblob(400000000))));
      INSERT INTO savepoint_meta (key) VALUES ('schema')`,
    "a generated column": "ALTER TABLE savepoint_record ADD COLUMN bomb AS (length(hex(zeroblob(400000000)))) VIRTUAL",
    "an index on an expression": "CREATE INDEX bomb ON savepoint_record (length(hex(value)))",
  };

  describe.each(Object.entries(ADDITIONS))("%s", (_, sql) => {
    it.each(MODES)("is rejected and not changed: %o", async (options) => {
      await createStore();
      await execute(sql);
      const before = readFileSync(file);
      await expect(Savepoint.open(url(), options)).rejects.toMatchObject({ code: "DAMAGED" });
      expect(readFileSync(file).equals(before)).toBe(true);
    });
  });

  it("is rejected if the caller passes a handle, too", async () => {
    await createStore();
    await execute(ADDITIONS["a trigger"]);
    const database = await openDatabase(file);
    await expect(Savepoint.open(database)).rejects.toMatchObject({ code: "DAMAGED" });
    database.close();
  });

  it("is accepted if only tables of other programs have triggers, in a database of the caller", async () => {
    await createStore();
    await execute("CREATE TABLE mine (a); CREATE TRIGGER own AFTER INSERT ON mine BEGIN DELETE FROM mine; END");
    const database = await openDatabase(file);
    const sp = await Savepoint.open(database);
    expect((await sp.session("s").latest())?.state).toEqual({ n: 1 });
    await sp.close();
    database.close();
  });
});

describe("a file that is not a regular file", () => {
  const open = (): { status: number | null; stdout: string } =>
    spawnSync(
      process.execPath,
      [
        "--input-type=module",
        "-e",
        `const { Savepoint } = await import("savepoint");
        await Savepoint.open(${JSON.stringify(url())}).then(() => console.log("opened"), (error) => console.log(error.code));
        process.exit();`,
      ],
      { timeout: 10_000, killSignal: "SIGKILL", encoding: "utf8" },
    );

  it("is rejected in the place of the database, and does not make the process wait", () => {
    execFileSync("mkfifo", [file]);
    expect(open()).toMatchObject({ status: 0, stdout: "NOT_A_STORE\n" });
  });

  it.each(["-wal", "-shm", "-journal"])(
    "is rejected in the place of %s, and does not make the process wait",
    async (suffix) => {
      await createStore();
      execFileSync("mkfifo", [file + suffix]);
      expect(open()).toMatchObject({ status: 0, stdout: "DAMAGED\n" });
    },
  );

  it("is rejected if a symbolic link beside the database leads out of its folder", async () => {
    await createStore();
    mkdirSync(join(folder, "elsewhere"));
    writeFileSync(join(folder, "elsewhere", "private"), "private");
    symlinkSync(join(folder, "elsewhere", "private"), `${file}-wal`);
    for (const options of MODES) {
      await expect(Savepoint.open(url(), options)).rejects.toMatchObject({ code: "DAMAGED" });
    }
    expect(readFileSync(join(folder, "elsewhere", "private"), "utf8")).toBe("private");
  });
});
