/**
 * Workers: processes that resume scheduled and abandoned sessions. Finding work is only a hint; a worker runs a session only
 * if it has claimed its branch, so two workers that find the same work do not both run it.
 */
export type {
  QuarantineEvent,
  WorkerEvent,
  WorkerEventOf,
  WorkerEventType,
  WorkerFailureEvent,
  WorkerRunErrorEvent,
} from "./events.js";
export { parseWorkerOptions, type WorkerOptions } from "./options.js";
export { Worker } from "./worker.js";
