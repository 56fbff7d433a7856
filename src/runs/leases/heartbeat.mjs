/**
 * The thread that renews the lease of its process, however busy that is. It is told when to start, to stop and to end. The
 * store is opened when it is first needed: most runs are over before.
 */
import { parentPort, workerData } from "node:worker_threads";
import { elapsedBetween, systemMoment } from "./moment.js";
import { renewLease } from "./renew-lease.js";

/** @import { HeartbeatData } from "./leases.js" */
/** @import { Store } from "../../store/index.js" */

const { module, url, options, key, lease, every, process: owner } = /** @type {HeartbeatData} */ (workerData);
/** @type {Store | undefined} */
let store;
/** @type {NodeJS.Timeout | undefined} */
let timer;
let beat = Promise.resolve();
let isBeating = false;
/** @type {string | undefined} */
let known;

async function renew() {
  // If the power fails, nobody is left who could need the lease.
  store ??= await (await import(module)).openStore(url, { ...options, durability: "process" });
  const opened = /** @type {Store} */ (store);
  for (;;) {
    const began = systemMoment();
    const until = (await opened.now()) + lease;
    known = await renewLease(opened, key, { until, process: owner }, known);
    const landed = systemMoment();
    parentPort?.postMessage({ began, landed });
    // One that was on its way for long says little, unless nobody needs it any more.
    if (elapsedBetween(began, landed) < every || !timer) return;
  }
}

/** One at a time: while the store is away they would pile up. */
function beatOnce() {
  if (isBeating) return;
  isBeating = true;
  beat = renew()
    .catch((error) => {
      // Where the store cannot be opened the thread ends, and the main one goes on with it. A failure after that passes.
      if (!store) throw error;
      parentPort?.postMessage({ error: toError(error) });
    })
    .finally(() => (isBeating = false));
}

/**
 * As it gets through to another thread.
 *
 * @param {unknown} error
 */
function toError(error) {
  return new Error(error instanceof Error ? error.message : String(error));
}

async function end() {
  await beat;
  await store?.close();
  parentPort?.close();
}

parentPort?.on("message", (/** @type {"start" | "stop" | "close"} */ told) => {
  clearInterval(timer);
  timer = told === "start" ? setInterval(beatOnce, every) : undefined;
  if (told === "close") void end();
});
parentPort?.postMessage("ready");
