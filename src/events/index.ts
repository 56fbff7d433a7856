export {
  type BackgroundFailureEvent,
  type DamageEvent,
  type EventName,
  Events,
  type IndexingEvent,
  type Listener,
  type Listeners,
  type SavepointEvents,
} from "./events.js";
export {
  type CrashedProcess,
  findCrashedProcesses,
  type InterruptedRun,
  type LastShutdown,
  ProcessRegistration,
  withCommit,
} from "./open-process.js";
export type { EffectKind, LoopVerdict, RunEvent, RunEventBody, RunEventOf, RunEventType } from "./run-events.js";
