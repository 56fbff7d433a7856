/**
 * The objects that applications work with: a session handle, and the collections of a `Savepoint`. They validate arguments, map
 * records to public types and delegate to the modules below. Invariant: every public method first asks `Services.open()`, so
 * that nothing reads or writes after `close()`.
 */
export { Agents, type SaveAgentOptions } from "./agents.js";
export { type AutoCheckpointOptions, AutoCheckpoints, type AutoTarget, type PolicyTarget } from "./auto-checkpoints.js";
export { type CheckpointListOptions, Checkpoints, type RestoreReport } from "./checkpoints/checkpoints.js";
export type { AnyCheckpointInfo } from "./checkpoints/list.js";
export { type ConversationChange, Conversations, type WholeConversation } from "./conversations.js";
export { type OpenedStore, type OpenOptions, openServices } from "./open.js";
export type { ScopeOptions } from "./scope/scope.js";
export { rekey, type RekeyOptions } from "./rekey.js";
export { RetentionPolicies, type RetentionPolicy } from "./retention-policies.js";
export type { Services } from "./services.js";
export { type AnnotateOptions, type CompleteOptions, openSession, type RewindInfo, Session } from "./session.js";
export { type SessionInfo, type SessionListOptions, Sessions } from "./sessions.js";
export { readStats, type Stats } from "./stats.js";
export { Workers } from "./workers.js";
