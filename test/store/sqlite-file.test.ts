/** Opening: what becomes a store, what is one, and what is left alone. */
import { createHash } from "node:crypto";
import { readdirSync, readlinkSync } from "node:fs";
import { chmod, copyFile, mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { isSavepointError, type SavepointError } from "../../src/errors.js";
import { Savepoint } from "../../src/index.js";
import { openSqliteStore, openStore } from "../../src/store.js";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import { canMount, skipped, SmallDisk } from "./small-disk.js";
import { makeFolder, removeFolder } from "./temporary-folder.js";

let folder: string;
let file: string;
beforeEach(async () => {
  folder = await makeFolder();
  file = join(folder, "store.db");
});
afterEach(() => removeFolder(folder));

describe("a file that is no store", () => {
  const contents: Record<string, string> = {
    "a short text": "hello",
    "a long text": "This is no database. ".repeat(1_000),
    "the beginning of a database": "SQLite format 3\0",
    zeros: "\0".repeat(10_000),
  };
  for (const [what, content] of Object.entries(contents)) {
    it(`${what} is refused and not touched`, async () => {
      await writeFile(file, content);
      await expectRefused("NOT_A_STORE");
    });
  }

  it("a database with other tables is refused and not touched", async () => {
    const database = await openDatabase(file);
    database.exec("CREATE TABLE invoice (id INTEGER PRIMARY KEY); INSERT INTO invoice VALUES (1)");
    database.close();
    await expectRefused("NOT_A_STORE");
  });

  it("a database in WAL mode with other tables is refused and not touched", async () => {
    const database = await openDatabase(file);
    database.exec("PRAGMA journal_mode = WAL; CREATE TABLE invoice (id INTEGER PRIMARY KEY)");
    database.close();
    await expectRefused("NOT_A_STORE");
  });

  it("a store of a newer version is refused and not touched", async () => {
    await setVersion("999");
    const error = await expectRefused("STORE_TOO_NEW");
    expect(error.details).toMatchObject({ found: 999 });
  });

  it("a store whose version is unreadable is refused and not touched", async () => {
    await setVersion("one");
    await expectRefused("NOT_A_STORE");
  });
});

describe("a path", () => {
  it("that does not exist becomes a new store, with its folder", async () => {
    file = join(folder, "a", "b", "store.db");
    await expectToWork();
  });

  it("of an empty file becomes a new store", async () => {
    await writeFile(file, "");
    await expectToWork();
  });

  it("is used literally, whatever its characters", async () => {
    for (const name of [
      "a b",
      "50%25",
      "what?mode=memory",
      "#1",
      "é\u{1f600}",
      "'quoted'",
      "file:store.db",
      ":memory: not",
    ]) {
      file = join(folder, name);
      await expectToWork();
      expect((await stat(file)).size).toBeGreaterThan(0);
    }
  });

  it("may be relative, and begin with two slashes in a URL", async () => {
    const relative = join("node_modules", ".savepoint-test", `${process.pid}.db`);
    try {
      await (await openStore(`sqlite:${relative}`)).close();
      expect((await stat(relative)).isFile()).toBe(true);
    } finally {
      await removeFolder(dirname(relative));
    }
    await (await openStore(`sqlite://${file}`)).close();
    expect((await stat(file)).isFile()).toBe(true);
  });

  it("of a folder fails with an error that names it", async () => {
    await mkdir(file);
    expect((await openingError()).code).toBe("NOT_A_STORE");
  });

  it("inside a file fails with an error that names it", async () => {
    await writeFile(file, "");
    file = join(file, "inside.db");
    expect((await openingError()).code).toBe("IO_FAILED");
  });

  it("that cannot be written fails with an error that names it, at the latest at the first write", async () => {
    await expectToWork();
    const before = await fingerprint();
    for (const mode of [0o555, 0o777]) {
      await chmod(file, 0o444);
      await chmod(folder, mode);
      const error = await withoutPrivileges(() => errorOf(() => overwrite(file)));
      await chmod(folder, 0o755);
      expect(error.code).toBe("IO_FAILED");
      expect(await fingerprint()).toBe(before);
    }
  });

  it("whose folder cannot be created fails with an error that names it", async () => {
    await chmod(folder, 0o555);
    file = join(folder, "new", "store.db");
    const error = await withoutPrivileges(openingError);
    await chmod(folder, 0o755);
    expect(error.code).toBe("IO_FAILED");
  });
});

describe("a closed store", () => {
  it.runIf(process.platform === "linux")("has no open files, also after a failed opening", async () => {
    const store = await openSqliteStore(file);
    for (let n = 0; n < 20; n++) await store.commit({ puts: [{ key: `k${n}`, value: "1" }] });
    await store.list({ from: "", to: "z" }, { limit: 5 });
    expect(openFilesIn(folder)).not.toEqual([]);
    await store.close();
    expect(openFilesIn(folder)).toEqual([]);
    await setVersion("999");
    await expect(openSqliteStore(file)).rejects.toMatchObject({ code: "STORE_TOO_NEW" });
    expect(openFilesIn(folder)).toEqual([]);
  });

  it.runIf(canMount)(`lets its disk be unmounted at once${skipped}`, async () => {
    const disk = new SmallDisk("64m");
    try {
      const sp = await Savepoint.open(`sqlite:${join(disk.path, "store.db")}`);
      // Enough for the thread that keeps the WAL short.
      for (let n = 0; n < 150; n++) await sp.session("s").save({ n, text: String(n).repeat(20_000) });
      await sp.search("7");
      await sp.close();
      disk.unmount();
    } catch (error) {
      disk.unmount({ lazy: true });
      throw error;
    }
  });

  it("has everything in its one file, which can be copied", async () => {
    await expectToWork();
    const copy = join(folder, "copy.db");
    await copyFile(file, copy);
    const store = await openSqliteStore(copy);
    expect(await store.get(["k"])).toEqual([{ key: "k", value: "1", refs: "" }]);
    await store.close();
  });
});

/** The files in a folder that this process has open. */
function openFilesIn(path: string): string[] {
  return readdirSync("/proc/self/fd")
    .map((name) => readlinkOf(`/proc/self/fd/${name}`))
    .filter((target) => target.startsWith(path));
}

function readlinkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    // The descriptor that the list was read with.
    return "";
  }
}

async function expectToWork(): Promise<void> {
  const store = await openSqliteStore(file);
  await store.commit({ puts: [{ key: "k", value: "1" }] });
  await store.close();
  const again = await openSqliteStore(file);
  expect(await again.get(["k"])).toEqual([{ key: "k", value: "1", refs: "" }]);
  expect(await again.bytes()).toBeGreaterThan(0);
  await again.close();
}

async function expectRefused(code: "NOT_A_STORE" | "STORE_TOO_NEW"): Promise<SavepointError> {
  const before = await fingerprint();
  const error = await openingError();
  expect(error.code).toBe(code);
  expect(await fingerprint()).toBe(before);
  return error;
}

async function openingError(): Promise<SavepointError> {
  return errorOf(async () => (await openSqliteStore(file)).close());
}

/** What it fails with: an error of ours that names the file. */
async function errorOf(work: () => Promise<unknown>): Promise<SavepointError> {
  let found: unknown;
  try {
    await work();
  } catch (error) {
    found = error;
  }
  if (!isSavepointError(found)) throw new Error(`It should have failed, and gave: ${String(found)}`, { cause: found });
  expect(found.message).toContain(file);
  return found;
}

async function overwrite(path: string): Promise<void> {
  const store = await openSqliteStore(path);
  try {
    await store.commit({ puts: [{ key: "k", value: "2" }] });
  } finally {
    await store.close();
  }
}

async function fingerprint(): Promise<string> {
  return createHash("sha256")
    .update(await readFile(file))
    .digest("hex");
}

async function setVersion(version: string): Promise<void> {
  await expectToWork();
  const database = await openDatabase(file);
  database.exec(`UPDATE savepoint_meta SET value = '${version}' WHERE key = 'schema'`);
  database.close();
}

/** Permissions mean nothing to root, which is who runs the tests in many containers. */
async function withoutPrivileges<T>(work: () => Promise<T>): Promise<T> {
  const isRoot = process.geteuid?.() === 0;
  if (isRoot) process.seteuid?.(65_534);
  try {
    return await work();
  } finally {
    if (isRoot) process.seteuid?.(0);
  }
}
