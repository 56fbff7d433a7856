/** Checkpoints of whole agents, as callers see them. */
import type { CheckpointInfo } from "../records/index.js";
import type { ConversationInfo } from "../conversations/index.js";
import type { SavedAgent } from "./saved-agent.js";

/** A checkpoint of a whole agent, without what it holds. Its `metadata` is what was said when it was taken. */
export interface AgentCheckpointInfo extends Omit<CheckpointInfo, "sessionId" | "agent"> {
  /** It belongs to no session. */
  readonly sessionId: undefined;
  readonly agent: string;
}

/** A checkpoint of a whole agent: the agent as it was, and its conversations without their messages. */
export interface AgentCheckpoint extends AgentCheckpointInfo {
  readonly state: SavedAgent<unknown>;
  /** `sp.conversations.load(id, { at: checkpoint.id })` gives their messages as they were. */
  readonly conversations: readonly ConversationInfo[];
}
