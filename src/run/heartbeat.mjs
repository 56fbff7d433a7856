/**
 * The thread that renews the lease of its process, however busy that is. It is told when to start, to stop and to end. The
 * store is opened when it is first needed: most runs are over before.
 */
import { parentPort, workerData } from "node:worker_threads";

/** @import { HeartbeatData } from "./leases.js" */
/** @import { Store } from "../store/store.js" */

const { module, url, options, key, lease, every, process: owner } = /** @type {HeartbeatData} */ (workerData);
/** @type {Store | undefined} */
let store;
/** @type {NodeJS.Timeout | undefined} */
let timer;
let beat = Promise.resolve();
let asked = { now: 0, at: Number.NEGATIVE_INFINITY };
const ASK_EVERY = 60_000;

async function renew() {
  // If the power fails, nobody is left who could need the lease.
  store ??= await (await import(module)).openStore(url, { ...options, durability: "process" });
  const until = (await storeTime(/** @type {Store} */ (store))) + lease;
  await store?.commit({ puts: [{ key, value: JSON.stringify({ until, process: owner }) }] });
}

/**
 * The store's clock, by this machine's: asked for once in a while, so that a sign of life is one statement. A machine that
 * was asleep thinks that it is earlier, and so claims less than it may.
 *
 * @param {Store} opened
 */
async function storeTime(opened) {
  const passed = performance.now() - asked.at;
  if (passed < ASK_EVERY) return Math.floor(asked.now + passed);
  const now = await opened.now();
  asked = { now, at: performance.now() };
  return now;
}

async function end() {
  await beat;
  await store?.close();
  parentPort?.close();
}

parentPort?.on("message", (/** @type {"start" | "stop" | "close"} */ told) => {
  clearInterval(timer);
  // One after another. A beat that fails ends the thread, and the main one goes on with it.
  if (told === "start") timer = setInterval(() => void (beat = beat.then(renew)), every);
  else if (told === "close") void end();
});
parentPort?.postMessage("ready");
