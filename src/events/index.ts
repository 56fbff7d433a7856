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
  findCrashed,
  type InterruptedRun,
  type LastShutdown,
  OpenProcessNote,
  withCommit,
} from "./open-process.js";
export type { EffectKind, LoopVerdict, RunEvent, RunEventBody, RunEventOf, RunEventType } from "./run-events.js";
