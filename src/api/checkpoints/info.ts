/** A checkpoint of a session or of an agent, without its state. */
import { type AgentCheckpointInfo, toAgentCheckpointInfo } from "../../agents/index.js";
import { agentOfHistoryId, type CheckpointInfo } from "../../records/index.js";

/** A checkpoint of a session or of an agent, without its state. Checkpoints of agents have no `sessionId`. */
export type AnyCheckpointInfo = CheckpointInfo | AgentCheckpointInfo;

/** The public form of a stored checkpoint. In the history of an agent, its own metadata is nested in the stored one. */
export function toAnyInfo(historyId: string, info: CheckpointInfo): AnyCheckpointInfo {
  const agent = agentOfHistoryId(historyId);
  if (agent === undefined) return info;
  return toAgentCheckpointInfo(agent, info, (info.metadata as { own?: Record<string, unknown> }).own ?? {});
}
