export {
  isSavepointError,
  SavepointError,
  type SavepointErrorCode,
  type SavepointErrorDetails,
  type SavepointErrorOptions,
} from "./errors.js";
export type { CreateCheckpointOptions } from "./model/agent-checkpoints.js";
export { Agents, type SaveAgentOptions } from "./model/agents.js";
export {
  type AutoCheckpointOptions,
  AutoCheckpoints,
  type AutoTarget,
  type PolicyTarget,
} from "./model/auto-checkpoints.js";
export type { Attachments } from "./model/attachments.js";
export type { BranchInfo } from "./model/branches.js";
export type { Checkpoint, CheckpointInfo, CheckpointKind, CheckpointRef, CheckpointStatus, SaveOptions, Status, Usage } from "./model/checkpoint.js";
export type { AgentCheckpoint, AgentCheckpointInfo } from "./model/agent-checkpoint.js";
export {
  type AnyCheckpointInfo,
  type CheckpointListOptions,
  Checkpoints,
  type RestoreReport,
} from "./model/checkpoints.js";
export type { CollectOptions, CollectReport } from "./model/collect.js";
export type {
  Conversation,
  ConversationEntry,
  ConversationInfo,
  ConversationListOptions,
  ConversationOptions,
  LoadConversationOptions,
} from "./model/conversation.js";
export { type ConversationChange, Conversations, type WholeConversation } from "./model/conversations.js";
export type {
  BackgroundFailureEvent,
  DamageEvent,
  EventName,
  IndexingEvent,
  Listener,
  Listeners,
  SavepointEvents,
} from "./model/events.js";
export type { HistoryOptions } from "./model/history.js";
export type { Listing } from "./model/listing.js";
export {
  type Attachment,
  type AttachmentType,
  type Message,
  message,
  type MessageFields,
  pendingToolCalls,
  type Role,
  type ToolCall,
  type ToolCallStatus,
} from "./model/message.js";
export { describeMessage, type MessageDescription } from "./model/message-text.js";
export type { AgentMigrations, Migration } from "./model/migrations.js";
export type { VerifyProblem } from "./model/verify/findings.js";
export type { VerifyCounts, VerifyOptions, VerifyReport } from "./model/verify/verify.js";
export type { CrashedProcess, InterruptedRun, LastShutdown } from "./model/open-process.js";
export type { RepairOptions, RepairReport } from "./model/verify/repair.js";
export type { BackupInfo, BackupOptions, BackupPolicy, BackupResult } from "./model/bundle/backup.js";
export { Bundle } from "./model/bundle/export.js";
export type { BundleHole, BundleProgress, BundleSummary, ExportOptions, ExportTarget } from "./model/bundle/export.js";
export type { BundleKind } from "./model/bundle/format.js";
export type { BundleSource, ImportOptions, ImportResult } from "./model/bundle/import.js";
export type {
  KeptCheckpoint,
  PrunedCheckpoint,
  PruneOptions,
  PruneProgress,
  PruneResult,
  PruneTarget,
} from "./model/prune.js";
export type { AutoPolicy } from "./model/records.js";
export type { NeededBy } from "./model/remove-checkpoints.js";
export type { KeepReason, RetentionOptions } from "./model/retention.js";
export { RetentionPolicies, type RetentionPolicy } from "./model/retention-policies.js";
export type { EffectKind, LoopVerdict, RunEvent, RunEventOf, RunEventType } from "./model/run-events.js";
export type { Question } from "./model/run-records.js";
export type { RestoredConversation, RestorePlan } from "./model/restore.js";
export type { AgentFields, AgentToSave, SavedAgent, SavedAgentInfo } from "./model/saved-agent.js";
export type { ConversationHit, SearchHit, SearchOptions } from "./model/search.js";
export type { Stats } from "./model/stats.js";
export type { SkippedCheckpoint } from "./model/checkpoint.js";
export { type OpenOptions, Savepoint } from "./savepoint.js";
export type { OpenTarget } from "./store/open.js";
export { Session } from "./model/session.js";
export type { ForkOptions, LoadOptions, SessionOptions } from "./model/session-options.js";
export { type SessionInfo, type SessionListOptions, Sessions } from "./model/sessions.js";
export { type Agent, type AgentDefinition, defineAgent, type Limits } from "./run/agent.js";
export type { Completion } from "./run/completion.js";
export type { EnqueueOptions } from "./run/enqueue.js";
export type { RunHandle } from "./run/handle.js";
export { LoopDetector, type LoopOptions } from "./run/loop-detector.js";
export type { OpenRun, OpenRunOptions, OpenToolOptions } from "./run/open-run.js";
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
export type { JournalEntry } from "./run/read-journal.js";
export type { RecoverOptions, RunOptions } from "./run/run-options.js";
export { type CheckpointEvent, shouldCheckpoint, type Strategy } from "./run/strategy.js";
export type { WatchEvent, WatchOptions } from "./run/watch.js";
export {
  type ParkedEvent,
  Worker,
  type WorkerEvent,
  type WorkerEventOf,
  type WorkerEventType,
  type WorkerFailureEvent,
} from "./run/worker.js";
export type { WorkerOptions } from "./run/worker-options.js";
export { applyChanges, type Change } from "./state/change.js";
export { fromJson, type Json, toJson, type ToJsonOptions } from "./state/to-json.js";
export type { Hole } from "./state/decode.js";
export type { AnyStoredClass, StoredClass } from "./state/registry.js";
export type { SqliteDatabase, SqliteStatement, SqliteValue } from "./store/sqlite/driver.js";
export type {
  PostgresClient,
  PostgresPool,
  PostgresResult,
  PostgresValue,
  Statement,
} from "./store/postgres/driver.js";
export type { Durability } from "./store/options.js";
export { type Duration, toMilliseconds } from "./store/duration.js";
export type * from "./store/store.js";
export type * from "./store/text-index.js";
