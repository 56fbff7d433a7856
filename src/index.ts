export {
  isSavepointError,
  SavepointError,
  type SavepointErrorCode,
  type SavepointErrorDetails,
  type SavepointErrorOptions,
} from "./errors.js";
export type { BranchInfo } from "./model/branches.js";
export type {
  Checkpoint,
  CheckpointInfo,
  CheckpointKind,
  CheckpointRef,
  SaveOptions,
  SkippedCheckpoint,
  Status,
  Usage,
} from "./model/checkpoint.js";
export type { CollectReport } from "./model/collect.js";
export type {
  BackgroundFailureEvent,
  DamageEvent,
  EventName,
  Listener,
  Listeners,
  SavepointEvents,
} from "./model/events.js";
export type { HistoryOptions } from "./model/history.js";
export type { Listing } from "./model/listing.js";
export { type OpenOptions, type OpenTarget, Savepoint } from "./model/savepoint.js";
export { Session } from "./model/session.js";
export type { ForkOptions, LoadOptions, SessionOptions } from "./model/session-options.js";
export { type SessionInfo, type SessionListOptions, Sessions } from "./model/sessions.js";
export { applyChanges, type Change } from "./state/change.js";
export type { Hole } from "./state/decode.js";
export type { AnyStoredClass, StoredClass } from "./state/registry.js";
export type { SqliteDatabase, SqliteStatement, SqliteValue } from "./store/sqlite/driver.js";
export type { Durability } from "./store/sqlite/options.js";
export type { Duration } from "./store/duration.js";
export type * from "./store/store.js";
