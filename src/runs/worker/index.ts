export { takeWorkerOptions, type WorkerOptions } from "./options.js";
export {
  type ParkedEvent,
  Worker,
  type WorkerEvent,
  type WorkerEventOf,
  type WorkerEventType,
  type WorkerFailureEvent,
} from "./worker.js";
