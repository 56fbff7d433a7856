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
  type OpenToolOptions,
  type RetryOptions,
  type Run,
  shouldCheckpoint,
  type Strategy,
  type UnknownPolicy,
  type Verdict,
} from "./agent/index.js";
export { type RunHandle, Runs, type WatchEvent, type WatchOptions, watchSession } from "./api/index.js";
export { forkWithResults, type JournalEntry, readJournal } from "./journal/index.js";
export type { Reopening } from "./leases/index.js";
export {
  checkAgent,
  type EnqueueOptions,
  type RecoverOptions,
  type RunOptions,
  takeAgents,
  takeBranchName,
} from "./starting/index.js";
export {
  type CompletedRun,
  type EndedRun,
  readLastShutdown,
  readStandings,
  type RunResult,
  type Standing,
  type WaitingRun,
} from "./status/index.js";
export {
  type QuarantineEvent,
  takeWorkerOptions,
  Worker,
  type WorkerEvent,
  type WorkerEventOf,
  type WorkerEventType,
  type WorkerFailureEvent,
  type WorkerOptions,
} from "./worker/index.js";
