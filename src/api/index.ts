export { Agents, type SaveAgentOptions } from "./agents.js";
export { type AutoCheckpointOptions, AutoCheckpoints, type AutoTarget, type PolicyTarget } from "./auto-checkpoints.js";
export { type AnyCheckpointInfo, type CheckpointListOptions, Checkpoints, type RestoreReport } from "./checkpoints.js";
export { type ConversationChange, Conversations, type WholeConversation } from "./conversations.js";
export { RetentionPolicies, type RetentionPolicy } from "./retention-policies.js";
export { Session, type SessionHost } from "./session.js";
export { type SessionInfo, type SessionListOptions, Sessions } from "./sessions.js";
export { readStats, type Stats } from "./stats.js";
