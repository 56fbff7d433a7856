/** The WAL stays short while a process writes on and on, and while others read; and a thread that cannot is no disaster. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openSqliteStore, type Store } from "../../src/store.js";
import { openDatabase, type SqliteDatabase, type SqliteStatement } from "../../src/store/sqlite/driver.js";
import { makeFolder, removeFolder } from "./temporary-folder.js";

let folder: string;
let path: string;
beforeEach(async () => {
  folder = await makeFolder();
  path = join(folder, "store.db");
});
afterEach(() => removeFolder(folder));

/** The pages at which writers wait until the WAL is copied. */
const MAX_PAGES = 8000;
/** Commits after which the WAL counts as growing forever: many times as many as fit into it, however slow its thread is. */
const ENOUGH = 20_000;

/** Commits about 25 kB each, one after another, until `isDone` returns true. */
async function write(store: Store, tape: string, isDone: (commits: number) => boolean | Promise<boolean>) {
  const frame = { json: JSON.stringify("x".repeat(25_000)), refs: "" };
  for (let n = 0; !(await isDone(n)); n++) await store.commit({ items: [{ tape, first: n, items: [frame] }] });
}

/** Counts how often the WAL begins anew, which bounds it: how long it is by then depends on the speed of the machine. */
class WalObserver {
  readonly #pages: SqliteStatement;
  #last = 0;
  restarts = 0;

  constructor(database: SqliteDatabase) {
    this.#pages = database.prepare("PRAGMA wal_checkpoint(NOOP)");
  }

  get pages(): number {
    return (this.#pages.get() as { log: number }).log;
  }

  /** To be called after every commit. */
  observe(): void {
    const { pages } = this;
    if (pages < this.#last) this.restarts++;
    this.#last = pages;
  }
}

describe("the WAL", () => {
  it("the WAL begins anew again and again under sustained writes, with readers", async () => {
    const store = await openSqliteStore(path, { durability: "process" });
    const reader = await openSqliteStore(path, { durability: "process" });
    const database = await openDatabase(path);
    const wal = new WalObserver(database);
    await write(store, "t", async (commits) => {
      await reader.items([{ tape: "t", start: 0, count: 1 }]);
      wal.observe();
      return wal.restarts >= 8 || commits >= ENOUGH;
    });
    expect(wal.restarts).toBe(8);
    database.close();
    await store.close();
    await reader.close();
  });

  it("the WAL begins anew again and again when a reader that kept it long has ended", async () => {
    const store = await openSqliteStore(path, { durability: "process" });
    const database = await openDatabase(path);
    const wal = new WalObserver(database);
    await write(store, "a", (commits) => commits >= 100);
    database.exec("BEGIN");
    database.prepare("SELECT count(*) FROM savepoint_chunk").get();
    await write(store, "b", (commits) => commits >= 1000);
    database.exec("COMMIT");
    expect(wal.pages).toBeGreaterThan(MAX_PAGES);
    await write(store, "c", (commits) => {
      wal.observe();
      return wal.restarts >= 3 || commits >= ENOUGH;
    });
    expect(wal.restarts).toBe(3);
    database.close();
    await store.close();
  });

  it("a process that closes its store waits for the WAL to be copied", async () => {
    const script = `
      import { Savepoint } from "savepoint";
      const sp = await Savepoint.open(${JSON.stringify(`sqlite:${path}`)}, { durability: "process" });
      const session = sp.session("s");
      for (let n = 0; n < 400; n++) await session.save({ n, text: String(n).repeat(20_000) });
      await sp.close();
      console.log("closed");`;
    const { stdout, stderr } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script]);
    expect({ stdout, stderr }).toEqual({ stdout: "closed\n", stderr: "" });
  });
});
