/**
 * What a checkpoint of a whole agent has of a conversation: one short text that says where its messages are, and what was
 * said about it. No message is copied.
 */
import type { Piece } from "../state/index.js";
import { scan, type UnreadableRecord } from "../store/index.js";
import type { Context } from "../context.js";
import type { ConversationInfo } from "./conversation.js";
import { type DamagedConversation, readConversations, type StoredConversation, toConversationInfo } from "./reader.js";
import {
  conversationNumberKey,
  type ConversationRecord,
  conversationsOf,
  decodeConversation,
  encodeConversation,
  trailingNumberOf,
  piecesOf,
} from "../records/index.js";
import { decodeConversationListing, readWithFallback } from "./commit.js";
import { SavepointError } from "../errors.js";

/** A conversation as a checkpoint has it. */
export interface ConversationSnapshot {
  /** With all its messages in `base`. */
  readonly record: ConversationRecord;
  readonly lastMessageAt: number;
  readonly firstTitle: string | undefined;
}

/**
 * Its record with all its ranges, when its last message came, its first title, and its place in lists. Without its agent
 * and its number: one that was deleted and has come back under another number is the same.
 */
export function encodeSnapshot({ record, items, lastMessageAt, firstTitle }: StoredConversation): string {
  const whole = { ...record, number: 0, order: 0, agent: undefined, base: piecesOf(record, items), tapeStart: 0 };
  const title = firstTitle === undefined ? "" : JSON.stringify(firstTitle);
  return `${encodeConversation(whole)}\n${lastMessageAt}\n${title}\n${record.order}`;
}

/** Do two entries say the same of a conversation? Its place in lists is not part of that. */
export function isSameSnapshot(a: string, b: string): boolean {
  return a === b || a.slice(0, a.lastIndexOf("\n")) === b.slice(0, b.lastIndexOf("\n"));
}

export function decodeSnapshot(text: string, agent: string): ConversationSnapshot {
  const [record = "", last = "", title = "", order = ""] = text.split("\n");
  return {
    record: { ...decodeConversation(record), order: Number(order), agent },
    lastMessageAt: Number(last),
    firstTitle: title === "" ? undefined : (JSON.parse(title) as string),
  };
}

/** The ranges of its messages. */
export function piecesOfSnapshot({ record }: ConversationSnapshot): readonly Piece[] {
  return record.base;
}

export function toSnapshotInfo(id: string, entered: ConversationSnapshot, context: Context): ConversationInfo {
  const { record, lastMessageAt, firstTitle } = entered;
  return toConversationInfo({ id, record, value: "", items: 0, lastMessageAt, firstTitle }, context);
}

/** The conversations of an agent. */
export interface AgentConversations {
  readonly intact: readonly StoredConversation[];
  readonly damaged: readonly DamagedConversation[];
}

/** Conversations come and go all the time; more often than that, something else is wrong. */
const MAX_TRIES = 50;

/** All conversations of an agent as they are at one moment. */
export async function readAgentConversations(context: Context, agent: string): Promise<AgentConversations> {
  let list = await readList(context, agent);
  for (let tries = 1; tries <= MAX_TRIES; tries++) {
    const found = await readConversations(
      context,
      list.map(({ id }) => id),
    );
    // If the list is the same before and after, it is that of the moment when they were read.
    const again = await readList(context, agent);
    if (JSON.stringify(again) === JSON.stringify(list)) return sortOut(found, agent);
    list = again;
  }
  throw new SavepointError(
    "BUSY",
    `The conversations of agent ${JSON.stringify(agent)} could not be read at one moment: others were made or deleted each of ${MAX_TRIES} times. Try again.`,
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

function sortOut(
  found: readonly (StoredConversation | DamagedConversation | undefined)[],
  agent: string,
): AgentConversations {
  const whole: StoredConversation[] = [];
  const damaged: DamagedConversation[] = [];
  for (const conversation of found) {
    if (!conversation) continue;
    if ("unreadable" in conversation) damaged.push(conversation);
    else if (conversation.record.agent === agent) whole.push(conversation);
  }
  return { intact: whole, damaged };
}

/** What a checkpoint of an agent cannot be taken over: it would be incomplete. */
export function unreadableConversation(agent: string, reason: string): SavepointError<"DAMAGED"> {
  return new SavepointError(
    "DAMAGED",
    `A conversation of agent ${JSON.stringify(agent)} cannot be read: ${reason}. Without it a checkpoint would be incomplete: restore one that has it, or delete it.`,
    { details: { agent } },
  );
}
