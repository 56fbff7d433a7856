/**
 * The program of the thread that renews the lease of its process, however busy the event loop of the process is. Messages
 * start, stop and close it. The store is opened for the first renewal, because most runs end before that.
 */
import { parentPort, workerData } from "node:worker_threads";
import { elapsedBetween, systemMoment } from "./moment.js";
import { renewLease } from "./renew-lease.js";

/** @import { HeartbeatData } from "./heartbeat-thread.js" */
/** @import { Store } from "../../store/index.js" */

const { module, url, options, key, lease, every, process: owner } = /** @type {HeartbeatData} */ (workerData);
/** @type {Store | undefined} */
let store;
/** @type {NodeJS.Timeout | undefined} */
let timer;
let renewal = Promise.resolve();
let isRenewing = false;
/** @type {string | undefined} */
let lastValue;

async function renew() {
  // After a power cut no process is left that needs the lease, so `process` durability suffices.
  store ??= await (await import(module)).openStore(url, { ...options, durability: "process" });
  const opened = /** @type {Store} */ (store);
  for (;;) {
    const began = systemMoment();
    const until = (await opened.now()) + lease;
    lastValue = await renewLease(opened, key, { until, process: owner }, lastValue);
    const durable = systemMoment();
    parentPort?.postMessage({ began, durable });
    // A renewal that took long extends the lease by little, so another one follows, unless the thread was stopped.
    if (elapsedBetween(began, durable) < every || !timer) return;
  }
}

/** Starts a renewal, unless one is in progress: while the store is unavailable they would pile up. */
function renewOnce() {
  if (isRenewing) return;
  isRenewing = true;
  renewal = renew()
    .catch((error) => {
      // If the store cannot be opened, the thread ends and the main thread renews the lease. Later failures may be temporary.
      if (!store) throw error;
      parentPort?.postMessage({ error: toPlainError(error) });
    })
    .finally(() => (isRenewing = false));
}

/**
 * Converts an error to one that can be sent to another thread.
 *
 * @param {unknown} error
 */
function toPlainError(error) {
  return new Error(error instanceof Error ? error.message : String(error));
}

async function close() {
  await renewal;
  await store?.close();
  parentPort?.close();
}

parentPort?.on("message", (/** @type {"start" | "stop" | "close"} */ command) => {
  clearInterval(timer);
  timer = command === "start" ? setInterval(renewOnce, every) : undefined;
  if (command === "close") void close();
});
parentPort?.postMessage("ready");
