/** A read that fails for a moment, because of the disk, descriptors or memory, is never taken for damage. */
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { isSavepointError } from "../../src/errors.js";
import { type DamageEvent, type Listeners, message, Savepoint } from "../../src/index.js";
import { openDatabase, type SqliteDatabase, type SqliteStatement } from "../../src/store/sqlite/driver.js";
import { openSqliteStore } from "../../src/store.js";
import { makeFolder, removeFolder } from "./temporary-folder.js";

let folder: string;
beforeEach(async () => {
  folder = await makeFolder();
});
afterEach(() => removeFolder(folder));

const PICTURE = new Uint8Array(3_000).map((_, n) => (n * n) % 251);

async function fill(sp: Savepoint): Promise<void> {
  const session = sp.session("s");
  for (let n = 0; n < 2; n++) await session.save({ n, text: "long".repeat(5_000), picture: PICTURE });
  await sp.conversations.create({ id: "c" });
  await sp.conversations.append("c", [message.user("hello")]);
}

/** What is read, each with what it must give. */
const READS: readonly ((sp: Savepoint) => Promise<void>)[] = [
  // Nothing but opening.
  async () => {},
  async (sp) => expect((await sp.session("s").latest())?.state).toMatchObject({ n: 1, picture: PICTURE }),
  async (sp) => {
    for await (const { id } of sp.session("s").history()) expect(await sp.session("s").load(id)).toBeDefined();
  },
  async (sp) => expect((await sp.conversations.load("c"))?.messages).toHaveLength(1),
  async (sp) => expect(await sp.verify({ deep: true })).toMatchObject({ ok: true }),
  async (sp) => void (await sp.session("s").save({ n: 1, text: "other", picture: PICTURE })),
];

/** Has low-level reads of each operation fail in turn: the first ones, and some of the later. Gives how many failed, and what was not as it must be. */
async function sweep(
  open: (on: Listeners) => Promise<Savepoint>,
  fault: Fault,
): Promise<{ failed: number; wrong: string[] }> {
  const wrong: string[] = [];
  let failed = 0;
  for (const [index, read] of READS.entries()) {
    for (let n = 0, isDone = false; !isDone; n += 1 + (n >> 1)) {
      const note = (what: unknown): void => void wrong.push(`${index}, read ${n}: ${String(what)}`);
      const on = { damage: ({ reason }: DamageEvent) => note(reason), backgroundFailure: () => {} };
      let sp = index === 0 ? undefined : await open(on);
      fault.arm(n);
      try {
        sp ??= await open(on);
        await read(sp);
      } catch (error) {
        if (!isSavepointError(error, "IO_FAILED")) note(error);
      }
      isDone = !fault.failed;
      fault.arm();
      // It has passed: the same handle reads everything again.
      sp ??= await open(on);
      await READS[1]?.(sp).catch(note);
      await sp.close();
      if (!isDone) failed++;
    }
  }
  return { failed, wrong };
}

const SQLITE_ERRORS: Readonly<Record<string, () => Promise<Error>>> = {
  // This is what SQLite makes of EIO.
  "a malformed database": corruptError,
  "an I/O error": () => openingError("/proc/self/mem"),
};

describe("a transient read error", () => {
  it.runIf(process.platform === "linux")("is IO_FAILED in a file store and not damage", async () => {
    const url = `file:${join(folder, "store")}`;
    const first = await Savepoint.open(url);
    await fill(first);
    await first.close();
    const broken = breakFileReads();
    try {
      const result = await sweep((on) => Savepoint.open(url, { on, durability: "process" }), broken.fault);
      expect(result.wrong).toEqual([]);
      expect(result.failed).toBeGreaterThan(10);
    } finally {
      broken.end();
    }
  });

  it("fails with IO_FAILED in a file store whose folder is missing, like that of an unmounted volume", async () => {
    const path = join(folder, "store");
    const first = await Savepoint.open(`file:${path}`);
    await fill(first);
    await first.close();
    const damages: DamageEvent[] = [];
    const sp = await Savepoint.open(`file:${path}`, { on: { damage: (event) => void damages.push(event) } });
    fs.renameSync(path, `${path}.away`);
    await expect(sp.session("s").latest()).rejects.toMatchObject({ code: "IO_FAILED" });
    fs.renameSync(`${path}.away`, path);
    expect((await sp.session("s").latest())?.state).toMatchObject({ n: 1 });
    expect(damages).toEqual([]);
    await sp.close();
  });

  for (const [what, makeError] of Object.entries(SQLITE_ERRORS)) {
    it(`is not taken for damage in a SQLite store where SQLite reports ${what}`, async () => {
      const database = await openDatabase(join(folder, "store.db"));
      const broken = breakStatements(database, await makeError());
      const first = await Savepoint.open(await openSqliteStore(database));
      await fill(first);
      await first.close();
      const open = async (on: Listeners): Promise<Savepoint> =>
        Savepoint.open(
          await openSqliteStore(broken.database, { durability: "process", onBackgroundFailure: () => {} }),
          { on },
        );
      const result = await sweep(open, broken.fault);
      expect(result.wrong).toEqual([]);
      expect(result.failed).toBeGreaterThan(10);
      database.close();
    });
  }

  it("that lasts fails with IO_FAILED in a SQLite store, even if SQLite reports it like damage", async () => {
    const database = await openDatabase(join(folder, "store.db"));
    const broken = breakStatements(database, await corruptError());
    const store = await openSqliteStore(broken.database);
    await store.commit({ puts: [{ key: "k", value: "1" }] });
    broken.lasts = true;
    await expect(store.get(["k"])).rejects.toMatchObject({ code: "IO_FAILED" });
    await expect(store.check?.()).rejects.toMatchObject({ code: "IO_FAILED" });
    broken.lasts = false;
    expect(await store.get(["k"])).toEqual([{ key: "k", value: "1", refs: "" }]);
    expect(await store.check?.()).toEqual([]);
    await store.commit({ puts: [{ key: "k", value: "2" }] });
    await store.close();
    database.close();
  });
});

/** Where the next reads fail. */
interface Fault {
  /** Has the read after so many others fail, once; none where it is not given. */
  arm(n?: number): void;
  /** Has it failed since it was armed? */
  readonly failed: boolean;
}

interface FaultState {
  left: number;
  failed: boolean;
}

function hitFault(state: FaultState, error: Error): void {
  if (state.left-- !== 0) return;
  state.failed = true;
  throw error;
}

function armed(state: FaultState): Fault {
  return {
    arm(n) {
      state.left = n ?? Infinity;
      if (n !== undefined) state.failed = false;
    },
    get failed() {
      return state.failed;
    },
  };
}

/** Calls of the file system that read, all of which can be made to fail. */
function breakFileReads(): { readonly fault: Fault; end(): void } {
  const error = readError();
  const state = { left: Infinity, failed: false };
  const hit = (): void => hitFault(state, error);
  const NAMES = ["readSync", "openSync", "readFileSync", "statSync", "fstatSync"] as const;
  const before = Object.fromEntries(NAMES.map((name) => [name, fs[name]]));
  const { readFile } = fs.promises;
  for (const name of NAMES) {
    const original = fs[name] as (...args: unknown[]) => unknown;
    Object.assign(fs, { [name]: (...args: unknown[]) => (hit(), original(...args)) });
  }
  fs.promises.readFile = (async (...args: Parameters<typeof readFile>) => (
    hit(),
    readFile(...args)
  )) as typeof readFile;
  syncBuiltinESMExports();
  return {
    fault: armed(state),
    end() {
      Object.assign(fs, before);
      fs.promises.readFile = readFile;
      syncBuiltinESMExports();
    },
  };
}

/** A database whose statements can be made to fail. */
function breakStatements(
  database: SqliteDatabase,
  error: Error,
): { readonly database: SqliteDatabase; readonly fault: Fault; lasts: boolean } {
  const state = { left: Infinity, failed: false };
  const broken = { lasts: false, fault: armed(state) };
  const wrap = (sql: string, statement: SqliteStatement): SqliteStatement => {
    const call = <T>(work: () => T): T => {
      if (/^(SELECT|INSERT|UPDATE|DELETE)/.test(sql.trim())) {
        if (broken.lasts) throw error;
        hitFault(state, error);
      }
      return work();
    };
    return {
      run: (...values) => call(() => statement.run(...values)),
      get: (...values) => call(() => statement.get(...values)),
      all: (...values) =>
        broken.lasts && sql.includes("quick_check")
          ? [{ quick_check: "*** in database main ***\nTree 2 page 9: unable to get the page. error code=8458" }]
          : call(() => statement.all(...values)),
    };
  };
  const wrapped: SqliteDatabase = {
    exec: (sql) => database.exec(sql),
    prepare: (sql) => wrap(sql, database.prepare(sql)),
    close: () => database.close(),
  };
  return Object.assign(broken, { database: wrapped });
}

/** What the driver throws where a page of the database is damaged. */
async function corruptError(): Promise<Error> {
  const path = join(folder, "corrupt.db");
  const made = await openDatabase(path);
  made.exec("CREATE TABLE t (a); INSERT INTO t VALUES (1)");
  made.close();
  fs.writeFileSync(path, Buffer.concat([fs.readFileSync(path).subarray(0, 4_096), Buffer.alloc(4_096, 7)]));
  const database = await openDatabase(path);
  try {
    database.prepare("SELECT a FROM t").get();
  } catch (error) {
    return error as Error;
  } finally {
    database.close();
  }
  throw new Error("It could be read.");
}

/** What the driver throws where a file cannot be read or opened. */
async function openingError(path: string): Promise<Error> {
  return (await openDatabase(path).then(
    () => new Error("It could be opened."),
    (error: unknown) => error,
  )) as Error;
}

/** A real one: this file cannot be read at its beginning. */
function readError(): Error {
  const file = fs.openSync("/proc/self/mem", "r");
  try {
    fs.readSync(file, Buffer.alloc(1), 0, 1, 0);
  } catch (error) {
    return error as Error;
  } finally {
    fs.closeSync(file);
  }
  throw new Error("It could be read.");
}
