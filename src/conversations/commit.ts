/** The parts of commits by which conversations come, change and go. */
import { type Check, type Commit, type RecordResult, type Put, scan, type Store } from "../store/index.js";
import type { Context } from "../context.js";
import { damagedConversation, readConversations } from "./reader.js";
import {
  agentConversationKey,
  agentOfAgentConversationKey,
  ALL_AGENT_CONVERSATIONS,
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

/** What removes a conversation. Its messages are freed when nothing needs them any more. */
export function planConversationRemoval(
  id: string,
  { agent, number, order }: Pick<ConversationRecord, "agent" | "number" | "order">,
  hasCheckpoints: boolean,
): { deletes: NonNullable<Commit["deletes"]>; puts: Put[] } {
  const rest = agent !== undefined && hasCheckpoints ? removedConversationKey(agent, number) : garbageKey(number);
  return {
    deletes: [
      conversationKey(id),
      partsOfConversation(id),
      conversationNumberKey(order),
      agentConversationKey(agent, order),
    ],
    puts: [{ key: rest, value: "" }],
  };
}

/** The records that say what a conversation is. */
export function conversationPuts(id: string, record: ConversationRecord): Put[] {
  const { order, agent, archived } = record;
  return [
    { key: conversationKey(id), value: encodeConversation(record) },
    { key: conversationNumberKey(order), value: id },
    { key: agentConversationKey(agent, order), value: archived ? `${id}\t` : id },
  ];
}

/** The conversation in a record of the list of an agent, and whether it is archived. */
export function decodeConversationListing(value: string): { readonly id: string; readonly archived: boolean } {
  return value.endsWith("\t") ? { id: value.slice(0, -1), archived: true } : { id: value, archived: false };
}

export function firstTitlePut(id: string, number: number, title: string): Put {
  return { key: derivedTitleKey(id, number), value: JSON.stringify(title) };
}

/** A conversation that is there, whole or damaged: what it takes to remove it. */
export interface RemovableConversation extends Pick<ConversationRecord, "agent" | "number" | "order"> {
  readonly check: Check;
}

/** The conversation with an id. A damaged one says nothing of itself, and is looked for in the lists. */
export async function findRemovable(context: Context, id: string): Promise<RemovableConversation | undefined> {
  const [stored] = await readConversations(context, [id]);
  const key = conversationKey(id);
  if (!stored) return undefined;
  if (!("unreadable" in stored)) {
    const { agent, number, order } = stored.record;
    return { agent, number, order, check: { key, value: stored.value } };
  }
  for await (const record of scan(context.store, ALL_AGENT_CONVERSATIONS)) {
    // Its place in the list is its number, unless it was deleted before; then its messages stay until its agent goes.
    const number = trailingNumberOf(record.key);
    const value = await readWithFallback(context.store, record, conversationNumberKey(number));
    if (value === undefined || decodeConversationListing(value).id !== id) continue;
    return { agent: agentOfAgentConversationKey(record.key), number, order: number, check: { key, exists: true } };
  }
  throw damagedConversation(stored);
}

/** What a record of a list says; where it is damaged, the record under another key says the same. */
export async function readWithFallback(
  store: Store,
  record: RecordResult,
  otherKey: string,
): Promise<string | undefined> {
  if ("value" in record) return record.value;
  const [other] = await store.get([otherKey]);
  return other && "value" in other ? other.value : undefined;
}
