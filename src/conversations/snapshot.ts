/**
 * A conversation in a checkpoint of its agent: one short string with the fields of the conversation and the ranges of
 * its messages. No message is copied.
 */
import { parseStoredString, type Piece } from "../state/index.js";
import type { Context } from "../context.js";
import type { ConversationInfo } from "./conversation.js";
import { type StoredConversation, toConversationInfo } from "./reader.js";
import { decodeConversation, encodeConversation, piecesOf } from "../records/index.js";

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
