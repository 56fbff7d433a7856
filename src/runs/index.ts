/**
 * Runs: durable executions of agents. A run holds the lease of its branch while it executes steps, records every effect in a
 * journal, and resumes in any process after a crash without repeating recorded work.
 */
export {
  type Agent,
  type AgentDefinition,
  type AskOptions,
  type CheckpointEvent,
  Completion,
  defineAgent,
  type EffectContext,
  type EffectOptions,
  type Limits,
  type LlmContext,
  type LlmOptions,
  LoopDetector,
  type LoopOptions,
  type OpenRun,
  type OpenRunOptions,
  type OpenLlmOptions,
  type OpenToolOptions,
  type EmitOptions,
  type RetryOptions,
  type Run,
  shouldCheckpoint,
  type Strategy,
  type UnknownPolicy,
  type Verdict,
} from "./agent/index.js";
export {
  LiveRuns,
  type RunHandle,
  type RunObserver,
  Runs,
  type WatchEvent,
  type WatchOptions,
  watchSession,
} from "./api/index.js";
export {
  type CheckpointActivity,
  type EffectClaim,
  type EffectSummary,
  forkWithResults,
  type JournalEntry,
  type JournalHole,
  type JournalOptions,
  readActivities,
  readEffectsAfter,
  readJournal,
} from "./journal/index.js";
export {
  listQueue,
  listQueueOf,
  listWorkers,
  type QueuedRun,
  type QueueState,
  type WorkerInfo,
} from "./queue/index.js";
export type { StoreAddress } from "./leases/index.js";
export {
  checkAgent,
  type EnqueueOptions,
  type RecoverOptions,
  type RunOptions,
  parseAgents,
  parseBranchName,
} from "./starting/index.js";
export {
  type CompletedRun,
  type EndedRun,
  readLastShutdown,
  readBranchStatuses,
  type RunResult,
  type BranchStatus,
  type WaitingRun,
} from "./status/index.js";
export {
  type EventStreamOptions,
  followStream,
  type StreamEnd,
  type StreamEvent,
  StreamHub,
  type StreamOptions,
  toEventStream,
} from "./streams/index.js";
export {
  type QuarantineEvent,
  type WorkerRunErrorEvent,
  parseWorkerOptions,
  Worker,
  type WorkerEvent,
  type WorkerEventOf,
  type WorkerEventType,
  type WorkerFailureEvent,
  type WorkerOptions,
} from "./worker/index.js";
