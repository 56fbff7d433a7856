export { parseWorkerOptions, type WorkerOptions } from "./options.js";
export {
  type QuarantineEvent,
  Worker,
  type WorkerEvent,
  type WorkerEventOf,
  type WorkerEventType,
  type WorkerFailureEvent,
} from "./worker.js";
