/** Reading the queue and the leases of a store: which process runs what, and what waits to be run. Writes nothing. */
export { listQueue, listQueueOf, type QueuedRun, type QueueState } from "./list-queue.js";
export { listWorkers, type WorkerInfo } from "./list-workers.js";
