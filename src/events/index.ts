/**
 * Events that a Savepoint emits, and the registration of open processes that detects crashes. Emitting never throws: an error
 * in a listener is logged and does not reach the work that emitted the event.
 */
export {
  type BackgroundFailureEvent,
  type DamageEvent,
  type EventName,
  Events,
  type IndexingEvent,
  type Listener,
  type Listeners,
  type ListenOptions,
  type SavepointEvents,
} from "./events.js";
export {
  type CrashedProcess,
  findCrashedProcesses,
  type InterruptedRun,
  type LastShutdown,
  ProcessRegistration,
} from "./open-process.js";
export type {
  EffectKind,
  LoopVerdict,
  RunErrorEvent,
  RunEvent,
  RunEventBody,
  RunEventOf,
  RunEventType,
} from "./run-events.js";
