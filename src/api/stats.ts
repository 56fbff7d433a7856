/** `sp.stats()`: counts from counters and indexes. Reads no states and no messages. */
import { type RecordResult, type KeyRange, scanPages } from "../store/index.js";
import type { Context } from "../context.js";
import { readIntactConversations } from "../conversations/index.js";
import {
  agentHistoryId,
  agentOfHistoryId,
  ALL_CONVERSATION_NUMBERS,
  ALL_SESSION_NUMBERS,
  annotationsOf,
  branchesOf,
  checkId,
  conversationKey,
  conversationsOf,
  countPieces,
  decodeSession,
  notesOf,
  partsOfConversation,
  piecesOf,
  rowsOf,
  sessionKey,
  sessionsOfAgent,
  tapesOf,
} from "../records/index.js";
import { conversationIdsOf } from "./conversations.js";

/** The size of a store, or of one agent in it. */
export interface Stats {
  readonly agents: number;
  readonly conversations: number;
  readonly messages: number;
  readonly sessions: number;
  /** Checkpoints of sessions and of agents. */
  readonly checkpoints: number;
  /**
   * The stored size in bytes; for one agent, that of its records and items. Blobs are shared by all agents and counted only for
   * the whole store.
   */
  readonly bytes: number;
}

/** Counts so far, and the key ranges of what was counted. */
type Count = { -readonly [Name in Exclude<keyof Stats, "bytes">]: number } & {
  readonly records: KeyRange[];
  readonly tapes: KeyRange[];
};

/** Counts everything in the store, or everything of one agent. Reads one record per session and conversation. */
export async function readStats(context: Context, agent: string | undefined): Promise<Stats> {
  if (agent !== undefined) checkId(agent, "agent id");
  const { store } = context;
  const none = { agents: 0, sessions: 0, checkpoints: 0, conversations: 0, messages: 0 };
  const count: Count = { ...none, records: [], tapes: [] };
  if (agent === undefined) {
    for await (const page of scanPages(store, ALL_SESSION_NUMBERS)) await countSessions(context, valuesOf(page), count);
    for await (const page of scanPages(store, ALL_CONVERSATION_NUMBERS)) {
      await countConversations(context, valuesOf(page), count);
    }
  } else {
    await countSessions(context, [agentHistoryId(agent)], count);
    for await (const page of scanPages(store, sessionsOfAgent(agent))) {
      await countSessions(context, valuesOf(page), count);
    }
    for await (const page of scanPages(store, conversationsOf(agent))) {
      await countConversations(context, conversationIdsOf(page), count);
    }
  }
  const { records, tapes, ...counts } = count;
  return { ...counts, bytes: agent === undefined ? await store.bytes() : await store.bytesOf({ records, tapes }) };
}

/** The stored size of a session's records and items, in bytes, without blobs; `undefined` if it does not exist. */
export async function readSessionBytes(context: Context, id: string): Promise<number | undefined> {
  const none = { agents: 0, sessions: 0, checkpoints: 0, conversations: 0, messages: 0 };
  const count: Count = { ...none, records: [], tapes: [] };
  await countSessions(context, [id], count);
  return count.sessions === 0 ? undefined : context.store.bytesOf({ records: count.records, tapes: count.tapes });
}

async function countSessions({ store }: Context, ids: readonly string[], count: Count): Promise<void> {
  for (const [index, record] of (await store.get(ids.map(sessionKey))).entries()) {
    if (!record) continue;
    const id = ids[index] as string;
    if (agentOfHistoryId(id) === undefined) count.sessions++;
    else count.agents++;
    count.records.push({ from: sessionKey(id), to: `${sessionKey(id)}\u0001` }, branchesOf(id));
    // The number of checkpoints is in the record: for a damaged one it is unknown.
    if (!("value" in record)) continue;
    const { number, checkpoints } = decodeSession(record.value);
    count.checkpoints += checkpoints;
    count.records.push(rowsOf(number), notesOf(number), annotationsOf(number));
    count.tapes.push(tapesOf(number));
  }
}

async function countConversations(context: Context, ids: readonly string[], count: Count): Promise<void> {
  count.conversations += ids.length;
  for (const { id, record, items } of await readIntactConversations(context, ids)) {
    count.messages += countPieces(piecesOf(record, items));
    count.records.push({ from: conversationKey(id), to: `${conversationKey(id)}\u0001` }, partsOfConversation(id));
    count.tapes.push(tapesOf(record.number));
  }
}

function valuesOf(page: readonly RecordResult[]): string[] {
  return page.flatMap((record) => ("value" in record ? [record.value] : []));
}
