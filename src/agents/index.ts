/**
 * Agents: who acts, with their own durable state, and checkpoints of an agent together with its conversations.
 *
 * An agent is stored as the history of one session (`agentHistoryId`), so saves, retention and garbage collection work on
 * it unchanged. A checkpoint refers to messages of conversations by ranges and copies none.
 */
export {
  type AgentCheckpoint,
  type AgentCheckpointInfo,
  AgentCheckpoints,
  type CreateCheckpointOptions,
  toAgentCheckpointInfo,
} from "./checkpoints.js";
export { deleteAgent } from "./delete.js";
export {
  AgentRepository,
  type StoredAgent,
  type AgentChange,
  type AgentState,
  buildAgentState,
  toSavedAgent,
  toSavedAgentInfo,
  decodeAgentMetadata,
  decodeAgentState,
} from "./repository.js";
export { type RemovedConversation, removeConversation } from "./remove-conversation.js";
export { AgentRestorer, type RestoredConversation, type RestorePlan } from "./restore.js";
export { findUnmarkedConversations, readAgentState } from "./snapshots.js";
export {
  type AgentFields,
  agentNotFound,
  type AgentToSave,
  type SavedAgent,
  type SavedAgentInfo,
  parseAgent,
  type AgentContent,
} from "./saved-agent.js";
