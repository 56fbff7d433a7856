/**
 * What a checkpoint of a whole agent has of a conversation: one short text that says where its messages are, and what was
 * said about it. No message is copied.
 */
import type { Piece } from "../state/refs.js";
import { scan } from "../store/scan.js";
import type { Context } from "./context.js";
import type { ConversationInfo } from "./conversation.js";
import { readConversations, type StoredConversation, toConversationInfo } from "./conversation-reader.js";
import { type ConversationRecord, decodeConversation, encodeConversation, piecesOf } from "./conversation-records.js";
import { listedConversation } from "./conversation-writer.js";
import { SavepointError } from "../errors.js";
import { conversationsOf } from "./keys.js";

/** A conversation as a checkpoint has it. */
export interface EnteredConversation {
  /** With all its messages in `base`. */
  readonly record: ConversationRecord;
  readonly lastMessageAt: number;
  readonly firstTitle: string | undefined;
}

/** Its record with all its ranges and without its agent, when its last message came, and its first title. */
export function encodeEntry({ record, items, lastMessageAt, firstTitle }: StoredConversation): string {
  const whole = { ...record, agent: undefined, base: piecesOf(record, items), from: 0 };
  const title = firstTitle === undefined ? "" : JSON.stringify(firstTitle);
  return `${encodeConversation(whole)}\n${lastMessageAt}\n${title}`;
}

export function decodeEntry(text: string, agent: string): EnteredConversation {
  const [record = "", last = "", title = ""] = text.split("\n");
  return {
    record: { ...decodeConversation(record), agent },
    lastMessageAt: Number(last),
    firstTitle: title === "" ? undefined : (JSON.parse(title) as string),
  };
}

/** The ranges of its messages. */
export function piecesOfEntry({ record }: EnteredConversation): readonly Piece[] {
  return record.base;
}

export function toEnteredInfo(id: string, entered: EnteredConversation, context: Context): ConversationInfo {
  const { record, lastMessageAt, firstTitle } = entered;
  return toConversationInfo({ id, record, value: "", items: 0, lastMessageAt, firstTitle }, context);
}

/** All conversations of an agent as they are at one moment. One that cannot be read is `DAMAGED`: it would be missing. */
export async function readAgentConversations(context: Context, agent: string): Promise<StoredConversation[]> {
  const ids: string[] = [];
  for await (const record of scan(context.store, conversationsOf(agent))) {
    if ("value" in record) ids.push(listedConversation(record.value).id);
    else throw unreadableConversation(agent, record.unreadable);
  }
  const found = await readConversations(context, ids);
  return found.flatMap((conversation) => {
    if (conversation && "unreadable" in conversation) throw unreadableConversation(agent, conversation.unreadable);
    return conversation?.record.agent === agent ? [conversation] : [];
  });
}

function unreadableConversation(agent: string, reason: string): SavepointError<"DAMAGED"> {
  return new SavepointError(
    "DAMAGED",
    `A conversation of agent ${JSON.stringify(agent)} cannot be read: ${reason}. Without it a checkpoint would be incomplete; delete the conversation, or repair the store.`,
    { details: { agent } },
  );
}
