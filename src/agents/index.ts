export type { AgentCheckpoint, AgentCheckpointInfo } from "./agent-checkpoint.js";
export { AgentCheckpoints, type CreateCheckpointOptions, readLineState, toAgentCheckpointInfo } from "./checkpoints.js";
export { deleteAgent } from "./delete.js";
export {
  AgentLine,
  type FoundAgent,
  type LineChange,
  type LineState,
  newLineState,
  toAgent,
  toAgentInfo,
  toLineMetadata,
  toLineState,
} from "./repository.js";
export { Restore, type RestoredConversation, type RestorePlan } from "./restore.js";
export {
  type AgentFields,
  agentNotFound,
  type AgentToSave,
  type SavedAgent,
  type SavedAgentInfo,
  takeAgent,
  type TakenAgent,
} from "./saved-agent.js";
