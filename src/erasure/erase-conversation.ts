/** Erases a conversation with its messages, also from the checkpoints of its agent. */
import { removeConversation } from "../agents/index.js";
import type { Context } from "../context.js";
import { type ConversationWriter, readConversations } from "../conversations/index.js";
import { agentHistoryId, agentOfHistoryId, ALL_AGENTS, MAIN } from "../records/index.js";
import { type Cursors, SessionReader } from "../sessions/index.js";
import { scan } from "../store/index.js";

/** What was erased. */
export interface ErasedConversation {
  readonly conversations: number;
  /** The number of checkpoints from which the conversation was removed. */
  readonly checkpoints: number;
  /** Descriptions of damaged checkpoints that may still contain it. */
  readonly damaged: readonly string[];
}

/**
 * Erases a conversation. It is removed from the checkpoints of its agent before the deletion, because the deletion removes the
 * record that names the agent. After the deletion, it is removed from the checkpoints of all agents: a checkpoint may have been
 * created in between, and a checkpoint of another agent may contain an earlier conversation with the same id.
 */
export async function eraseConversation(
  context: Context,
  cursors: Cursors,
  writer: ConversationWriter,
  id: string,
): Promise<ErasedConversation> {
  const [stored] = await readConversations(context, [id]);
  const own = stored && !("unreadable" in stored) ? [stored.record.agent ?? ""] : [];
  const before = await removeFromCheckpoints(context, cursors, own, id);
  const existed = await writer.delete(id);
  const after = await removeFromCheckpoints(context, cursors, await listAgents(context), id);
  return {
    conversations: existed ? 1 : 0,
    checkpoints: before.checkpoints + after.checkpoints,
    damaged: after.damaged,
  };
}

/** @param agents `""` for none */
async function removeFromCheckpoints(
  context: Context,
  cursors: Cursors,
  agents: readonly string[],
  conversation: string,
): Promise<Omit<ErasedConversation, "conversations">> {
  let checkpoints = 0;
  const damaged: string[] = [];
  for (const each of agents) {
    const reader = new SessionReader(context, agentHistoryId(each));
    const removed = await removeConversation(reader, cursors.get(reader, MAIN), conversation);
    checkpoints += removed.checkpoints;
    damaged.push(...removed.damaged.map((seq) => `checkpoint #${seq} of agent ${JSON.stringify(each)}`));
  }
  return { checkpoints, damaged };
}

async function listAgents({ store }: Context): Promise<string[]> {
  const agents: string[] = [];
  for await (const { key } of scan(store, ALL_AGENTS)) {
    const [, historyId = "", branch] = key.split("\t");
    const agent = agentOfHistoryId(historyId);
    if (agent !== undefined && branch === MAIN) agents.push(agent);
  }
  return agents;
}
