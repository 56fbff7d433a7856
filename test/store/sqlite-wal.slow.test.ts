/** The WAL stays short while a process writes on and on, and while others read; and a thread that cannot is no disaster. */
import { execFile } from "node:child_process";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openSqliteStore, type Store } from "../../src/store.js";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import { makeFolder, removeFolder } from "./temporary-folder.js";

let folder: string;
let path: string;
beforeEach(async () => {
  folder = await makeFolder();
  path = join(folder, "store.db");
});
afterEach(() => removeFolder(folder));

const walBytes = async (): Promise<number> => (await stat(`${path}-wal`)).size;
const BOUND = 4000 * 4120;

/** Commits about 25 kB each, one after another. */
async function write(store: Store, commits: number, tape: string, between = async (): Promise<void> => {}) {
  for (let n = 0; n < commits; n++) {
    const frame = { json: JSON.stringify("x".repeat(25_000)), refs: "" };
    await store.commit({ items: [{ tape, first: n, items: [frame] }] });
    await between();
  }
}

describe("the WAL", () => {
  it("the WAL stays short under sustained writes, with readers", async () => {
    const store = await openSqliteStore(path, { durability: "process" });
    const reader = await openSqliteStore(path, { durability: "process" });
    let largest = 0;
    await write(store, 3000, "t", async () => {
      await reader.items([{ tape: "t", start: 0, count: 1 }]);
      largest = Math.max(largest, await walBytes());
    });
    // 75 MB went through it, and more, for packing.
    expect(largest).toBeLessThan(BOUND * 1.5);
    await store.close();
    await reader.close();
  });

  it("the WAL is short again when a reader that kept it long has ended", async () => {
    const store = await openSqliteStore(path, { durability: "process" });
    const database = await openDatabase(path);
    await write(store, 100, "a");
    database.exec("BEGIN");
    database.prepare("SELECT count(*) FROM savepoint_chunk").get();
    await write(store, 1000, "b");
    expect(await walBytes()).toBeGreaterThan(BOUND);
    database.exec("COMMIT");
    await write(store, 300, "c");
    const before = await walBytes();
    await write(store, 1500, "d");
    // It begins anew, or is about to: what was written would not fit behind it.
    expect((await walBytes()) - before).toBeLessThan(BOUND / 2);
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
