/** Which store a command uses, and the errors if there is none. */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import { errorOf, linesOf, run, spawnProgram } from "./command.js";
import { createPlace, useFilledPlace } from "./place.js";

/** Creates the default store of a folder with a session of this name. */
async function settle(folder: string, session: string): Promise<void> {
  mkdirSync(join(folder, ".savepoint"), { recursive: true });
  const sp = await Savepoint.open(`sqlite:${join(folder, ".savepoint", "store.db")}`);
  await sp.session(session).save({});
  await sp.close();
}

async function sessionsIn(cwd: string, env: Record<string, string> = {}, args: string[] = []): Promise<string[]> {
  const { stdout, stderr, code } = await run(["sessions", "--jsonl", ...args], { cwd, env });
  expect({ stderr, code }).toEqual({ stderr: "", code: 0 });
  return linesOf(stdout).map((line) => (JSON.parse(line) as { id: string }).id);
}

describe.concurrent("the default store", () => {
  it("a command finds the store in its folder and from any subfolder", async (test) => {
    const { folder } = createPlace(test);
    await settle(folder, "upper");
    mkdirSync(join(folder, "a", "b c", "ü"), { recursive: true });
    for (const below of [".", "a", join("a", "b c", "ü")]) {
      expect(await sessionsIn(join(folder, below))).toEqual(["upper"]);
    }
  });

  it("a command uses the nearest .savepoint folder", async (test) => {
    const { folder } = createPlace(test);
    const inner = join(folder, "inner");
    await settle(folder, "upper");
    await settle(inner, "lower");
    expect(await sessionsIn(inner)).toEqual(["lower"]);
    expect(await sessionsIn(folder)).toEqual(["upper"]);
  });

  it("SAVEPOINT_URL takes precedence over a .savepoint folder, and an empty one is ignored", async (test) => {
    const place = await createPlace(test).fill((sp) => sp.session("named").save({}));
    await settle(place.folder, "found");
    expect(await sessionsIn(place.folder, { SAVEPOINT_URL: place.url })).toEqual(["named"]);
    expect(await sessionsIn(place.folder, { SAVEPOINT_URL: "" })).toEqual(["found"]);
  });

  it("--store and -s take precedence over SAVEPOINT_URL, before or after the verb", async (test) => {
    const place = await createPlace(test).fill((sp) => sp.session("named").save({}));
    const env = { SAVEPOINT_URL: "sqlite:./not-there.db" };
    for (const args of [["--store", place.url], ["-s", place.url], [`--store=${place.url}`]]) {
      expect(await sessionsIn(place.folder, env, args)).toEqual(["named"]);
      const before = await run([...args, "sessions", "--json"], { cwd: place.folder, env });
      expect(JSON.parse(before.stdout)).toMatchObject([{ id: "named" }]);
    }
  });

  it("a relative store path is resolved against the current folder", async (test) => {
    const place = await createPlace(test).fill((sp) => sp.session("named").save({}));
    mkdirSync(join(place.folder, "below"));
    expect(await sessionsIn(join(place.folder, "below"), {}, ["--store", "sqlite:../s.db"])).toEqual(["named"]);
    expect(await sessionsIn(place.folder, {}, ["--store", "sqlite:s.db"])).toEqual(["named"]);
  });
});

const READING = [
  ["sessions"],
  ["log"],
  ["log", "s", "--graph"],
  ["show", "s"],
  ["diff", "s"],
  ["search", "x"],
  ["agents"],
  ["conversations"],
  ["journal", "s"],
  ["stats"],
  ["watch"],
  ["verify"],
];

describe.concurrent("without a store", () => {
  it.each(READING.map((args) => [args.join(" "), args] as const))(
    "%s exits with 10, reports it and does not create a store",
    async (_, args) => {
      const place = await inEmptyFolder();
      try {
        const { stdout, stderr, code } = await run(args, { cwd: place });
        expect({ stdout, code }).toEqual({ stdout: "", code: 10 });
        expect(stderr).toMatch(/^error .*no store/);
        expect(linesOf(stderr)).toHaveLength(1);
        expect(readdirSync(place)).toEqual([]);
      } finally {
        removeFolder(place);
      }
    },
  );

  it("the error is printed as JSON with --json and --jsonl", async (test) => {
    const { folder } = createPlace(test);
    for (const format of ["--json", "--jsonl"]) {
      const ended = await run(["sessions", format], { cwd: folder });
      expect(ended.code).toBe(10);
      expect(errorOf(ended)).toMatchObject({ code: "STORE_NOT_FOUND", message: expect.stringContaining("no store") });
    }
    expect(readdirSync(folder)).toEqual([]);
  });

  it("the error explains how to create a store or name another one", async (test) => {
    const { folder } = createPlace(test);
    const { stderr } = await run(["sessions"], { cwd: folder });
    expect(stderr).toMatch(/savepoint init|--store/);
  });

  it.each(["sqlite:./not-there.db", "sqlite:./no/such/folder/x.db", "file:./not-there", "file:./no/such/folder"])(
    "%s is not created, nor is a folder for it",
    async (url) => {
      const folder = await inEmptyFolder();
      try {
        const { stdout, code } = await run(["sessions", "--store", url], { cwd: folder });
        expect({ stdout, code }).toEqual({ stdout: "", code: 10 });
        expect(readdirSync(folder)).toEqual([]);
      } finally {
        removeFolder(folder);
      }
    },
  );

  it("an empty .savepoint folder is not a store and stays empty", async (test) => {
    const { folder } = createPlace(test);
    mkdirSync(join(folder, ".savepoint"));
    const { code } = await run(["sessions"], { cwd: folder });
    expect(code).toBe(10);
    expect(readdirSync(join(folder, ".savepoint"))).toEqual([]);
  });

  it("a file called .savepoint is not a store", async (test) => {
    const { folder } = createPlace(test);
    writeFileSync(join(folder, ".savepoint"), "");
    expect((await run(["sessions"], { cwd: folder })).code).toBe(10);
  });

  it("a folder is not a SQLite file", async (test) => {
    const { folder } = createPlace(test);
    mkdirSync(join(folder, "agents"));
    expect((await run(["sessions", "--store", "sqlite:./agents"], { cwd: folder })).code).toBe(10);
  });
});

describe.concurrent("a path that is not a store", () => {
  it.each([
    ["a text", "Hello\n".repeat(1000)],
    ["a short text", "Hello\n"],
    ["nothing", ""],
    ["noise", Buffer.from(Array.from({ length: 9000 }, (_, n) => (n * 7919) % 251))],
    ["the beginning of a SQLite file", "SQLite format 3\0"],
  ])("a file with %s exits with 10 and is not modified", async (_, content) => {
    const folder = await inEmptyFolder();
    try {
      const path = join(folder, "x.db");
      writeFileSync(path, content);
      const ended = await run(["sessions", "--store", "sqlite:./x.db", "--json"], { cwd: folder });
      expect(ended.code).toBe(10);
      expect(["NOT_A_STORE", "STORE_NOT_FOUND"]).toContain(errorOf(ended).code);
      expect(readFileSync(path)).toEqual(Buffer.from(content));
      expect(readdirSync(folder)).toEqual(["x.db"]);
    } finally {
      removeFolder(folder);
    }
  });

  it("the SQLite database of another program exits with 10 and is not modified", async (test) => {
    const { folder } = createPlace(test);
    const path = join(folder, "x.db");
    const database = await openDatabase(path);
    database.exec("CREATE TABLE customer (id INTEGER)");
    database.close();
    const before = readFileSync(path);
    const ended = await run(["log", "--store", "sqlite:./x.db", "--json"], { cwd: folder });
    expect(ended.code).toBe(10);
    expect(errorOf(ended).code).toBe("NOT_A_STORE");
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  it("a folder with other files exits with 10 and is not modified", async (test) => {
    const { folder } = createPlace(test);
    mkdirSync(join(folder, "agents"));
    writeFileSync(join(folder, "agents", "notes.txt"), "mine");
    expect((await run(["log", "--store", "file:./agents"], { cwd: folder })).code).toBe(10);
    expect((await run(["log", "--store", "file:./agents/notes.txt"], { cwd: folder })).code).toBe(10);
    expect(readdirSync(join(folder, "agents"))).toEqual(["notes.txt"]);
  });

  it.each(["./agents.db", "", "mysql://somewhere/x", "sqlite:", "file:", "sqlite://", "memory:x", "C:\\agents.db"])(
    "the URL %j exits with 2",
    async (url) => {
      const ended = await run(["sessions", "--json", "--store", url]);
      expect(ended.code).toBe(2);
      expect(errorOf(ended)).toMatchObject({ code: "INVALID_URL" });
    },
  );

  it("an invalid URL in SAVEPOINT_URL exits with 2, and its password is not printed", async () => {
    const ended = await run(["sessions"], { env: { SAVEPOINT_URL: "mysql://me:secret@host/x" } });
    expect(ended.code).toBe(2);
    expect(ended.stderr).not.toContain("secret");
  });
});

describe.concurrent("a store of another format", () => {
  const place = useFilledPlace((sp) => sp.session("s").save({ n: 1 }));

  /** A copy of the store as a newer version would have written it. */
  async function withNewer(work: (path: string) => Promise<unknown>): Promise<void> {
    const folder = await inEmptyFolder();
    try {
      const path = join(folder, "s.db");
      cpSync(place().path("s.db"), path);
      const database = await openDatabase(path);
      database.exec("UPDATE savepoint_meta SET value = '99' WHERE key = 'schema'");
      database.close();
      const before = readFileSync(path);
      await work(path);
      expect(readFileSync(path).equals(before)).toBe(true);
    } finally {
      removeFolder(folder);
    }
  }

  it.each(["sessions", "log s", "search x", "watch s"])("%s rejects a newer format with exit code 12", (line) =>
    withNewer(async (path) => {
      const ended = await run([...line.split(" "), "--store", `sqlite:${path}`, "--json"]);
      expect(errorOf(ended, 12)).toMatchObject({ code: "STORE_TOO_NEW", details: { found: 99 } });
    }),
  );

  it("rejecting a newer format leaves no file beside the store", () =>
    withNewer(async (path) => {
      const ended = await spawnProgram(["sessions", "--store", `sqlite:${path}`, "--json"], { stdin: "" }).ended;
      expect(errorOf(ended, 12)).toMatchObject({ code: "STORE_TOO_NEW" });
      expect(existsSync(`${path}-wal`)).toBe(false);
    }));
});

async function inEmptyFolder(): Promise<string> {
  const { mkdtemp } = await import("node:fs/promises");
  const { tmpdir } = await import("node:os");
  return mkdtemp(join(tmpdir(), "savepoint-cli-"));
}

function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
}
