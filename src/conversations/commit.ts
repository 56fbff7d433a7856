/** Parts of the commits that create, change and remove conversations, and the lists of conversations that they keep. */
import { randomBytes } from "node:crypto";
import { type Check, type Commit, type RecordResult, type Put, scan, type Store } from "../store/index.js";
import type { Context } from "../context.js";
import { damagedConversation, readConversations } from "./reader.js";
import {
  agentConversationKey,
  agentOfAgentConversationKey,
  ALL_AGENT_CONVERSATIONS,
  changedConversationKey,
  conversationKey,
  conversationNumberKey,
  type ConversationRecord,
  garbageKey,
  encodeConversation,
  derivedTitleKey,
  removedConversationKey,
  trailingNumberOf,
  partsOfConversation,
} from "../records/index.js";

/** Differs from that of every other process. */
const PROCESS = randomBytes(6).toString("base64url");
let lastStamp = 0;

/** A string without spaces that no other call returns, in any process. */
export const newStamp = (): string => `${PROCESS}${(++lastStamp).toString(36)}`;

/** The mark of a changed conversation (changes.ts). A conversation without an agent is in no checkpoint and has none. */
export function changePut(agent: string | undefined, id: string): Put[] {
  return agent === undefined ? [] : [{ key: changedConversationKey(agent, id), value: newStamp() }];
}

/** What a commit has to delete and put to remove a conversation. Its messages are freed when no checkpoint needs them. */
export function planConversationRemoval(
  id: string,
  { agent, number, order }: Pick<ConversationRecord, "agent" | "number" | "order">,
  hasCheckpoints: boolean,
): { deletes: NonNullable<Commit["deletes"]>; puts: Put[] } {
  const deletes = [
    conversationKey(id),
    partsOfConversation(id),
    conversationNumberKey(order),
    agentConversationKey(agent, order),
  ];
  if (agent === undefined) return { deletes, puts: [{ key: garbageKey(number), value: "" }] };
  return hasCheckpoints
    ? { deletes, puts: [{ key: removedConversationKey(agent, number), value: "" }, ...changePut(agent, id)] }
    : { deletes: [...deletes, changedConversationKey(agent, id)], puts: [{ key: garbageKey(number), value: "" }] };
}

/** The record of a conversation, its entries in the lists of all conversations and of its agent, and the mark of its change. */
export function conversationPuts(id: string, record: ConversationRecord): Put[] {
  const { order, agent, archived } = record;
  return [
    { key: conversationKey(id), value: encodeConversation(record) },
    { key: conversationNumberKey(order), value: id },
    { key: agentConversationKey(agent, order), value: archived ? `${id}\t` : id },
    ...changePut(agent, id),
  ];
}

/** Decodes an entry of an agent's list of conversations. A trailing tab marks an archived one. */
export function decodeConversationListing(value: string): { readonly id: string; readonly archived: boolean } {
  return value.endsWith("\t") ? { id: value.slice(0, -1), archived: true } : { id: value, archived: false };
}

/** The title that the first message of a user gives a conversation. It is shown while no title is set. */
export function firstTitlePut(id: string, number: number, title: string): Put {
  return { key: derivedTitleKey(id, number), value: JSON.stringify(title) };
}

/** A conversation, intact or damaged, with what its removal needs. */
export interface RemovableConversation extends Pick<ConversationRecord, "agent" | "number" | "order"> {
  /** Fails the removal if the conversation has changed. */
  readonly check: Check;
}

/**
 * Finds a conversation to remove; `undefined` if there is none. The fields of a damaged one come from the lists that it
 * is in.
 */
export async function findRemovable(context: Context, id: string): Promise<RemovableConversation | undefined> {
  const [stored] = await readConversations(context, [id]);
  const key = conversationKey(id);
  if (!stored) return undefined;
  if (!("unreadable" in stored)) {
    const { agent, number, order } = stored.record;
    return { agent, number, order, check: { key, value: stored.value } };
  }
  for await (const record of scan(context.store, ALL_AGENT_CONVERSATIONS)) {
    // The number in the key is that of the conversation, unless a restore recreated it: then its messages stay until its
    // agent is deleted.
    const number = trailingNumberOf(record.key);
    const value = await readWithFallback(context.store, record, conversationNumberKey(number));
    if (value === undefined || decodeConversationListing(value).id !== id) continue;
    return { agent: agentOfAgentConversationKey(record.key), number, order: number, check: { key, exists: true } };
  }
  throw damagedConversation(stored);
}

/** The value of a record, or of its copy under another key if it is damaged; `undefined` if both are. */
export async function readWithFallback(
  store: Store,
  record: RecordResult,
  copyKey: string,
): Promise<string | undefined> {
  if ("value" in record) return record.value;
  const [copy] = await store.get([copyKey]);
  return copy && "value" in copy ? copy.value : undefined;
}
