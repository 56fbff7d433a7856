/**
 * Which conversations of an agent have changed since its newest checkpoint, so that the next checkpoint reads only those.
 *
 * Every commit that changes a conversation also puts a **mark**: a record with the ids of the agent and the conversation, and a value
 * that differs with every change. A checkpoint removes the marks that it has read, if they have not changed since. So a mark can be
 * superfluous, but none is missing.
 */
import {
  changedConversationsOf,
  conversationNumberKey,
  conversationOfChangedKey,
  conversationsOf,
  trailingNumberOf,
} from "../records/index.js";
import { type Check, scan, type Store, type StoredRecord, type UnreadableRecord } from "../store/index.js";
import type { Context } from "../context.js";
import { SavepointError } from "../errors.js";
import { decodeConversationListing, readWithFallback } from "./commit.js";
import { type DamagedConversation, readConversations, type StoredConversation } from "./reader.js";

/** Conversations of an agent as they were at one moment, and the marks of changes that they contain. */
export interface ConversationsAtOnce {
  /** By id, in the order of creation; `undefined` for a conversation that does not exist or belongs to another agent. */
  readonly found: ReadonlyMap<string, StoredConversation | DamagedConversation | undefined>;
  readonly marks: ConversationMarks;
}

/** The marks of changed conversations, by the id of the conversation. Damaged marks are included; their value is unknown. */
export type ConversationMarks = ReadonlyMap<string, StoredRecord | UnreadableRecord>;

/** Attempts to read the conversations while others are created or deleted. */
const MAX_ATTEMPTS = 50;

/** The parts of a commit that remove marks. It fails if one of these conversations has changed since the marks were read. */
export function removeMarks(marks: ConversationMarks): { readonly checks: Check[]; readonly deletes: string[] } {
  // A damaged mark stays: whether it has changed cannot be checked.
  const intact = [...marks.values()].filter((mark) => "value" in mark);
  return { checks: intact.map(({ key, value }) => ({ key, value })), deletes: intact.map(({ key }) => key) };
}

/**
 * Reads the conversations of an agent that have marks, at one moment. The others have not changed before that moment.
 *
 * @throws BUSY if other conversations are changed all the time
 */
export async function readChangedConversations(context: Context, agent: string): Promise<ConversationsAtOnce> {
  const ids = new Set<string>();
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
    const marks = await readMarks(context.store, agent);
    for (const id of marks.keys()) ids.add(id);
    if (ids.size === 0) return { found: new Map(), marks };
    const found = await readAtOnce(context, agent, [...ids]);
    // A conversation that got its first mark meanwhile may have changed before the others were read.
    const again = await readMarks(context.store, agent);
    if ([...again.keys()].every((id) => ids.has(id))) return { found, marks };
  }
  throw conversationsBusy(agent);
}

/**
 * Reads all conversations of an agent at one moment.
 *
 * @throws BUSY if conversations are created or deleted all the time
 */
export async function readAllConversations(context: Context, agent: string): Promise<ConversationsAtOnce> {
  const marks = await readMarks(context.store, agent);
  let list = await readList(context, agent);
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
    const ids = list.map(({ id }) => id);
    const found = await readAtOnce(context, agent, ids);
    // If the list is the same before and after, it was the same when the conversations were read.
    const again = await readList(context, agent);
    if (JSON.stringify(again) === JSON.stringify(list)) return { found, marks };
    list = again;
  }
  throw conversationsBusy(agent);
}

async function readAtOnce(
  context: Context,
  agent: string,
  ids: readonly string[],
): Promise<ConversationsAtOnce["found"]> {
  const found = ids.length === 0 ? [] : await readConversations(context, ids);
  const own = found.map((each) => (each && "record" in each && each.record.agent !== agent ? undefined : each));
  return new Map(ids.map((id, index) => [id, own[index]]));
}

/** Reads the marks of an agent's conversations. */
export async function readMarks(store: Store, agent: string): Promise<ConversationMarks> {
  const marks = new Map<string, StoredRecord | UnreadableRecord>();
  for await (const mark of scan(store, changedConversationsOf(agent)))
    marks.set(conversationOfChangedKey(mark.key), mark);
  return marks;
}

async function readList({ store }: Context, agent: string): Promise<{ key: string; id: string }[]> {
  const list: { key: string; id: string }[] = [];
  for await (const record of scan(store, conversationsOf(agent))) {
    const value = await readWithFallback(store, record, conversationNumberKey(trailingNumberOf(record.key)));
    if (value === undefined) throw unreadableConversation(agent, (record as UnreadableRecord).unreadable);
    list.push({ key: record.key, id: decodeConversationListing(value).id });
  }
  return list;
}

function conversationsBusy(agent: string): SavepointError<"BUSY"> {
  return new SavepointError(
    "BUSY",
    `The conversations of agent ${JSON.stringify(agent)} could not be read at one moment: conversations were created or deleted during each of ${MAX_ATTEMPTS} attempts. Try again.`,
  );
}

/** The error for a checkpoint that would be incomplete, because a conversation of its agent is damaged. */
export function unreadableConversation(agent: string, reason: string): SavepointError<"DAMAGED"> {
  return new SavepointError(
    "DAMAGED",
    `A conversation of agent ${JSON.stringify(agent)} cannot be read: ${reason}. A checkpoint without it would be incomplete. Restore a checkpoint that contains the conversation, or delete it.`,
    { details: { agent } },
  );
}
