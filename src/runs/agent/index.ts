/**
 * The public vocabulary of agents: their definition, the interface that a step function gets, and their retry, loop and
 * checkpoint policies. Nothing here reads or writes a store.
 */
export { type Agent, type AgentDefinition, type AgentSpec, defineAgent, type Limits, withLimits } from "./agent.js";
export { LoopDetector, type LoopOptions } from "./loop-detector.js";
export type { EmitOptions, OpenLlmOptions, OpenRun, OpenRunOptions, OpenToolOptions } from "./open-run.js";
export { isTransient, parseRetryOptions, pause, retryDelay, type RetryOptions } from "./retry.js";
export {
  type AskOptions,
  Completion,
  type EffectContext,
  type EffectOptions,
  type LlmContext,
  type LlmOptions,
  type Reply,
  type Run,
  type UnknownPolicy,
  type Verdict,
} from "./run.js";
export { type CheckpointEvent, shouldCheckpoint, type Strategy } from "./strategy.js";
