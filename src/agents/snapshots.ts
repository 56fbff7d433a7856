/**
 * The snapshots of an agent's conversations for its next checkpoint. If it is known which conversations have changed since the newest
 * checkpoint, only those are read.
 */
import {
  type ConversationsAtOnce,
  encodeSnapshot,
  isIntactConversation,
  isSameSnapshot,
  readAllConversations,
  readChangedConversations,
  readMarks,
  type StoredConversation,
  unreadableConversation,
} from "../conversations/index.js";
import {
  agentOfHistoryId,
  type CheckpointRow,
  decodeSnapshotBase,
  MAIN,
  rowKey,
  type SnapshotBase,
  snapshotBaseKey,
} from "../records/index.js";
import { loadShadow, type SessionReader } from "../sessions/index.js";
import type { Check } from "../store/index.js";
import { type AgentState, decodeAgentMetadata, decodeAgentState, type StoredAgent } from "./repository.js";

/** The conversations of an agent at one moment. */
export interface AgentSnapshots {
  /** Encoded snapshots by id, in the order of creation. */
  readonly conversations: ReadonlyMap<string, string>;
  /** The conversations that were read: all, or with `base` only the changed ones. */
  readonly read: ConversationsAtOnce;
  /** The checkpoint that has the snapshots of the others; `undefined` if all conversations were read. */
  readonly base: SnapshotBase | undefined;
  /** Fails the commit of a checkpoint if the base was removed or replaced. */
  readonly baseCheck: Check;
}

/**
 * Reads the snapshots of an agent's conversations.
 *
 * @throws DAMAGED if a conversation that has to be read is damaged
 */
export async function readSnapshots(reader: SessionReader, found: StoredAgent): Promise<AgentSnapshots> {
  const { context, sessionId } = reader;
  const agent = agentOfHistoryId(sessionId) ?? "";
  const { base, baseCheck } = await findSnapshotBase(reader, found);
  const read = await (base ? readChangedConversations(context, agent) : readAllConversations(context, agent));
  for (const each of read.found.values()) {
    if (each && "unreadable" in each) throw unreadableConversation(agent, each.unreadable);
  }
  const intact = [...read.found.values()].filter(isIntactConversation);
  if (!base) return { conversations: snapshotsOf(intact), read, base, baseCheck };
  if (read.found.size === 0) return { conversations: found.state.conversations, read, base, baseCheck };
  const conversations = new Map(found.state.conversations);
  for (const [id, each] of read.found) if (!each) conversations.delete(id);
  for (const [id, snapshot] of snapshotsOf(intact)) {
    // A conversation that was deleted and created again comes last.
    if (orderOf(conversations.get(id)) !== orderOf(snapshot)) conversations.delete(id);
    conversations.set(id, snapshot);
  }
  return { conversations, read, base, baseCheck };
}

/** Finds the base of the snapshots in a stored version of an agent. */
export async function findSnapshotBase(
  reader: SessionReader,
  { metadata }: Pick<StoredAgent, "metadata">,
): Promise<Pick<AgentSnapshots, "base" | "baseCheck">> {
  const { store } = reader.context;
  const key = snapshotBaseKey(agentOfHistoryId(reader.sessionId) ?? "");
  const [[record], session] = [await store.get([key]), await reader.session()];
  if (record && "unreadable" in record) return { base: undefined, baseCheck: { key, exists: true } };
  const baseCheck = { key, value: record?.value };
  const base = record && decodeSnapshotBase(record.value);
  if (!base || !session || base.stamp !== metadata.agent.snapshots) return { base: undefined, baseCheck };
  const [row] = await store.get([rowKey(session.record.number, base.seq)]);
  return { base: row && base, baseCheck };
}

/**
 * The conversations of an agent that differ from the snapshots of its base and have no mark, so that the next checkpoint would miss
 * their changes. Only damage can be the cause. Reads all conversations.
 */
export async function findUnmarkedConversations(reader: SessionReader): Promise<string[]> {
  const { context, sessionId } = reader;
  const agent = agentOfHistoryId(sessionId) ?? "";
  const { session, branch } = await reader.heads(MAIN);
  const head = branch?.record.head;
  if (!session || !head) return [];
  const { base } = await findSnapshotBase(reader, { metadata: decodeAgentMetadata(head, reader) });
  if (!base) return [];
  const { conversations } = await readAgentState(reader, session.record.number, head);
  const { found } = await readAllConversations(context, agent);
  const marks = await readMarks(context.store, agent);
  const now = snapshotsOf([...found.values()].filter(isIntactConversation));
  const ids = [...new Set([...conversations.keys(), ...now.keys()])];
  return ids.filter((id) => !marks.has(id) && !isSameSnapshot(conversations.get(id) ?? "", now.get(id) ?? ""));
}

/** Reads the state of a row of an agent, as it is stored. */
export async function readAgentState(reader: SessionReader, number: number, row: CheckpointRow): Promise<AgentState> {
  const shadow = await loadShadow(reader, number, row);
  return decodeAgentState(shadow, reader, agentOfHistoryId(reader.sessionId) ?? "");
}

/** Encoded snapshots of these conversations, by id. */
export function snapshotsOf(conversations: readonly StoredConversation[]): Map<string, string> {
  const sorted = [...conversations].sort((a, b) => a.record.order - b.record.order);
  return new Map(sorted.map((conversation) => [conversation.id, encodeSnapshot(conversation)]));
}

/** The place of a snapshot's conversation in lists. */
function orderOf(snapshot: string | undefined): string | undefined {
  return snapshot?.slice(snapshot.lastIndexOf("\n") + 1);
}
