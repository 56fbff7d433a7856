/**
 * A conversation in a checkpoint of its agent: one short string with the fields of the conversation and the ranges of
 * its messages. No message is copied.
 */
import { parseStoredString, type Piece } from "../state/index.js";
import { scan, type UnreadableRecord } from "../store/index.js";
import type { Context } from "../context.js";
import type { ConversationInfo } from "./conversation.js";
import {
  type DamagedConversation,
  isIntactConversation,
  readConversations,
  type StoredConversation,
  toConversationInfo,
} from "./reader.js";
import {
  conversationNumberKey,
  conversationsOf,
  decodeConversation,
  encodeConversation,
  trailingNumberOf,
  piecesOf,
} from "../records/index.js";
import { decodeConversationListing, readWithFallback } from "./commit.js";
import { SavepointError } from "../errors.js";

/** A conversation as it was at a checkpoint. All ranges of its messages are in the `base` of the record. */
export type ConversationSnapshot = Pick<StoredConversation, "record" | "lastMessageAt" | "firstTitle">;

/**
 * Encodes a conversation: its record with all ranges, the time of its last message, its first title, and its place in
 * lists. The agent and the number are left out, so that a conversation that was deleted and restored under another
 * number encodes to the same string.
 */
export function encodeSnapshot({ record, items, lastMessageAt, firstTitle }: StoredConversation): string {
  const complete = { ...record, number: 0, order: 0, agent: undefined, base: piecesOf(record, items), tapeStart: 0 };
  const title = firstTitle === undefined ? "" : JSON.stringify(firstTitle);
  return `${encodeConversation(complete)}\n${lastMessageAt}\n${title}\n${record.order}`;
}

/** Whether two encoded snapshots are equal. The place in lists is not compared. */
export function isSameSnapshot(a: string, b: string): boolean {
  return a === b || a.slice(0, a.lastIndexOf("\n")) === b.slice(0, b.lastIndexOf("\n"));
}

/** Decodes a snapshot of a conversation of this agent. */
export function decodeSnapshot(text: string, agent: string): ConversationSnapshot {
  const [record = "", last = "", title = "", order = ""] = text.split("\n");
  return {
    record: { ...decodeConversation(record), order: Number(order), agent },
    lastMessageAt: Number(last),
    firstTitle: title === "" ? undefined : parseStoredString(title),
  };
}

/** The ranges of the messages of a snapshot. */
export function piecesOfSnapshot({ record }: ConversationSnapshot): readonly Piece[] {
  return record.base;
}

/** A snapshot in its public form. */
export function toSnapshotInfo(id: string, snapshot: ConversationSnapshot, context: Context): ConversationInfo {
  const { record, lastMessageAt, firstTitle } = snapshot;
  return toConversationInfo({ id, record, value: "", items: 0, lastMessageAt, firstTitle }, context);
}

/** The conversations of an agent at one moment. */
export interface AgentConversations {
  readonly intact: readonly StoredConversation[];
  readonly damaged: readonly DamagedConversation[];
}

/** Attempts to read the conversations while none is created or deleted. */
const MAX_ATTEMPTS = 50;

/**
 * Reads all conversations of an agent at one moment.
 *
 * @throws BUSY if conversations are created or deleted all the time
 */
export async function readAgentConversations(context: Context, agent: string): Promise<AgentConversations> {
  let list = await readList(context, agent);
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
    const found = await readConversations(
      context,
      list.map(({ id }) => id),
    );
    // If the list is the same before and after, it was the same when the conversations were read.
    const again = await readList(context, agent);
    if (JSON.stringify(again) === JSON.stringify(list)) {
      const intact = found.filter(isIntactConversation).filter(({ record }) => record.agent === agent);
      return { intact, damaged: found.filter((each) => each !== undefined && "unreadable" in each) };
    }
    list = again;
  }
  throw new SavepointError(
    "BUSY",
    `The conversations of agent ${JSON.stringify(agent)} could not be read at one moment: conversations were created or deleted during each of ${MAX_ATTEMPTS} attempts. Try again.`,
  );
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

/** The error for a checkpoint that would be incomplete, because a conversation of its agent is damaged. */
export function unreadableConversation(agent: string, reason: string): SavepointError<"DAMAGED"> {
  return new SavepointError(
    "DAMAGED",
    `A conversation of agent ${JSON.stringify(agent)} cannot be read: ${reason}. A checkpoint without it would be incomplete. Restore a checkpoint that contains the conversation, or delete it.`,
    { details: { agent } },
  );
}
