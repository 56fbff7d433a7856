/** The thread that renews the lease of its process, however busy that is. It is told when to start and when to stop. */
import { parentPort, workerData } from "node:worker_threads";

/** @import { HeartbeatData } from "./leases.js" */
/** @import { Store } from "../store/store.js" */

const { module, url, key, lease, every, process: owner } = /** @type {HeartbeatData} */ (workerData);
const { openStore } = await import(module);
// If the power fails, nobody is left who could need the lease.
/** @type {Store} */
const store = await openStore(url, { durability: "process" });
/** @type {NodeJS.Timeout | undefined} */
let timer;
let beat = Promise.resolve();

async function renew() {
  const until = (await store.now()) + lease;
  await store.commit({ puts: [{ key, value: JSON.stringify({ until, process: owner }) }] });
}

parentPort?.on("message", (/** @type {"start" | "stop" | "close"} */ told) => {
  clearInterval(timer);
  // A beat that fails ends the thread, and the main one goes on with it.
  if (told === "start") timer = setInterval(() => void (beat = renew()), every);
  else if (told === "close") void beat.then(() => store.close()).then(() => parentPort?.close());
});
parentPort?.postMessage("ready");
