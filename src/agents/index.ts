export type { AgentCheckpoint, AgentCheckpointInfo } from "./agent-checkpoint.js";
export {
  AgentCheckpoints,
  type CreateCheckpointOptions,
  readAgentState,
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
export { AgentRestorer, type RestoredConversation, type RestorePlan } from "./restore.js";
export {
  type AgentFields,
  agentNotFound,
  type AgentToSave,
  type SavedAgent,
  type SavedAgentInfo,
  parseAgent,
  type AgentContent,
} from "./saved-agent.js";
