// One way to make commits durable, in a process of its own: see writers.mjs. Also the thread that writes in one of them.
import { closeSync, fdatasync, fdatasyncSync, openSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { promisify } from "node:util";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { input } from "./lib/child.mjs";
import { driverModule, openDatabase } from "./lib/inside.mjs";
import { median, quantile, timed, withLateness } from "./lib/measure.mjs";
import { message, seeded } from "./lib/states.mjs";

/** @typedef {{ commit: (rows: Uint8Array[]) => Promise<void>; close: () => Promise<void> }} Writer */

/** A disk that takes longer, in milliseconds, is not waited for on the event loop. */
const FAST = 1;
/** How often in a row it must have been fast. */
const STREAK = 8;
const WARM_UP = 100;

if (isMainThread) await main();
else await serve(workerData);

async function main() {
  const { folder, way, savers, saves } = /** @type {{ folder: string; way: string; savers: number; saves: number }} */ (
    input()
  );
  const writer = await openWriter(join(folder, "bench.db"), way);
  const save = inGroups(writer.commit);
  const row = Buffer.from(message(seeded(1), 0).content);

  /** @param {number} total @param {number[]} times */
  const saveAll = async (total, times) => {
    let left = total;
    const saver = async () => {
      while (left-- > 0) times.push(await timed(() => save(row)));
    };
    await Promise.all(Array.from({ length: savers }, saver));
  };
  await saveAll(Math.min(WARM_UP, saves), []);

  /** @type {number[]} */
  const times = [];
  const start = performance.now();
  const { late, latest } = await withLateness(() => saveAll(saves, times));
  const rate = times.length / ((performance.now() - start) / 1000);
  await writer.close();
  const driver = await driverModule();
  console.log(JSON.stringify({ rate, p50: median(times), p99: quantile(times, 0.99), late, latest, driver }));
}

/** @param {string} path @param {string} way @returns {Promise<Writer>} */
async function openWriter(path, way) {
  if (way === "writer thread") return inThread(path);
  if (way === "inline FULL") {
    const database = await openInline(path, "FULL");
    return { commit: async (rows) => database.write(rows), close: async () => database.close() };
  }
  return syncedAside(path, way.endsWith("here when alone and fast"));
}

/** SQLite does not wait for the disk; one sync of its WAL makes the group durable. @param {string} path @param {boolean} mayStay */
async function syncedAside(path, mayStay) {
  const database = await openInline(path, "NORMAL");
  const wal = openSync(`${path}-wal`, "r+");
  const syncAside = promisify(fdatasync);
  let streak = 0;
  return {
    commit: async (/** @type {Uint8Array[]} */ rows) => {
      database.write(rows);
      const start = performance.now();
      // Handing the wait to another thread costs about as much as a fast disk takes.
      if (mayStay && rows.length === 1 && streak >= STREAK) fdatasyncSync(wal);
      else await syncAside(wal);
      streak = performance.now() - start < FAST ? streak + 1 : 0;
    },
    close: async () => {
      closeSync(wal);
      database.close();
    },
  };
}

/** A thread with a connection of its own; the event loop only hears that it is done. @param {string} path */
async function inThread(path) {
  const worker = new Worker(new URL(import.meta.url), { workerData: path });
  const answer = () =>
    new Promise((resolve, reject) => {
      worker.once("message", resolve);
      worker.once("error", reject);
    }).finally(() => worker.removeAllListeners("error"));
  await answer();
  return {
    commit: async (/** @type {Uint8Array[]} */ rows) => {
      const done = answer();
      worker.postMessage(rows);
      await done;
    },
    close: async () => {
      const ended = new Promise((resolve) => worker.once("exit", resolve));
      worker.postMessage(undefined);
      await ended;
    },
  };
}

/** The thread: commits each batch that comes and says so. @param {string} path */
async function serve(path) {
  const database = await openInline(path, "FULL");
  parentPort?.on("message", (/** @type {Uint8Array[] | undefined} */ rows) => {
    if (rows) {
      database.write(rows);
      parentPort?.postMessage("done");
    } else {
      database.close();
      parentPort?.close();
    }
  });
  parentPort?.postMessage("ready");
}

/** @param {string} path @param {"FULL" | "NORMAL"} synchronous */
async function openInline(path, synchronous) {
  const database = await openDatabase(path);
  database.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = ${synchronous}`);
  database.exec("CREATE TABLE item (id INTEGER PRIMARY KEY, body BLOB NOT NULL)");
  const insert = database.prepare("INSERT INTO item (body) VALUES (?)");
  return {
    write: (/** @type {Uint8Array[]} */ rows) => {
      database.exec("BEGIN IMMEDIATE");
      for (const row of rows) insert.run(row);
      database.exec("COMMIT");
    },
    close: () => {
      database.close();
    },
  };
}

/** Saves in groups: all that wait when the writer is free are one commit. @param {Writer["commit"]} commit */
function inGroups(commit) {
  /** @type {{ row: Uint8Array; done: (value?: unknown) => void }[]} */
  let waiting = [];
  let busy = false;
  const work = async () => {
    busy = true;
    while (waiting.length > 0) {
      // Those who were just answered come back before the next group is closed.
      await nextTurn();
      const group = waiting;
      waiting = [];
      await commit(group.map(({ row }) => row));
      for (const { done } of group) done();
    }
    busy = false;
  };
  return (/** @type {Uint8Array} */ row) =>
    new Promise((done) => {
      waiting.push({ row, done });
      // A failure ends the process, which is all that a benchmark has to say about it.
      if (!busy) void work();
    });
}
