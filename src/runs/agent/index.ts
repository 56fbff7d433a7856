export { type Agent, type AgentDefinition, defineAgent, type Limits, type AgentSpec, withLimits } from "./agent.js";
export { Completion } from "./completion.js";
export { LoopDetector, type LoopOptions } from "./loop-detector.js";
export type { OpenRun, OpenRunOptions, OpenToolOptions } from "./open-run.js";
export { isTransient, pause, retryDelay, type RetryOptions, parseRetryOptions } from "./retry.js";
export type {
  AskOptions,
  EffectContext,
  EffectOptions,
  LlmContext,
  LlmOptions,
  Reply,
  Run,
  UnknownPolicy,
  Verdict,
} from "./run.js";
export { type CheckpointEvent, shouldCheckpoint, type Strategy } from "./strategy.js";
