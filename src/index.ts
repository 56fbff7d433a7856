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
  CheckpointStatus,
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
export { type Message, message, pendingToolCalls, type Role, type ToolCall } from "./model/message.js";
export type { EffectKind, LoopVerdict, RunEvent, RunEventOf, RunEventType } from "./model/run-events.js";
export type { Question } from "./model/run-records.js";
export { type OpenOptions, type OpenTarget, Savepoint } from "./savepoint.js";
export { Session } from "./model/session.js";
export type { ForkOptions, LoadOptions, SessionOptions } from "./model/session-options.js";
export { type SessionInfo, type SessionListOptions, Sessions } from "./model/sessions.js";
export { type Agent, type AgentDefinition, defineAgent, type Limits } from "./run/agent.js";
export type { Completion } from "./run/completion.js";
export type { RunHandle } from "./run/handle.js";
export { LoopDetector, type LoopOptions } from "./run/loop-detector.js";
export type { CompletedRun, EndedRun, RunResult, WaitingRun } from "./run/result.js";
export type { RetryOptions } from "./run/retry.js";
export type {
  AskOptions,
  EffectContext,
  EffectOptions,
  LlmContext,
  LlmOptions,
  Run,
  UnknownPolicy,
  Verdict,
} from "./run/run.js";
export type { RecoverOptions, RunOptions } from "./run/run-options.js";
export { type CheckpointEvent, shouldCheckpoint, type Strategy } from "./run/strategy.js";
export type { WatchEvent, WatchOptions } from "./run/watch.js";
export { applyChanges, type Change } from "./state/change.js";
export type { Hole } from "./state/decode.js";
export type { AnyStoredClass, StoredClass } from "./state/registry.js";
export type { SqliteDatabase, SqliteStatement, SqliteValue } from "./store/sqlite/driver.js";
export type { Durability } from "./store/sqlite/options.js";
export type { Duration } from "./store/duration.js";
export type * from "./store/store.js";
