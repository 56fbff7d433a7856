/**
 * The records of a conversation.
 *
 * The messages are items of the conversation's tape, in the order of appending. The record lists the ranges that make up the
 * conversation, usually one: its whole tape. An append makes the tape longer and changes nothing else, so it needs nothing
 * from the record. Cutting or replacing messages writes the remaining ranges, and the item from which the tape continues.
 */
import { coalesce, type Piece, type Shadow } from "../state/index.js";
import { type KeyRange, prefixRange } from "../store/index.js";
import { isCounter, isNumber, isString, listOf, objectOf, optional } from "../util/index.js";
import { isId } from "./ids.js";
import { encodeNumber, tapeName } from "./keys.js";
import { parseRecord } from "./parse-record.js";
import { formatPieces, parsePieces } from "./pieces.js";

/** A conversation without its messages. */
export interface ConversationRecord {
  /** Names its tape. A conversation that is created again under the same id gets another number. */
  readonly number: number;
  /** Its position in lists: its number, or the number it had before it was deleted and restored. */
  readonly order: number;
  readonly agent: string | undefined;
  readonly createdAt: number;
  /** The title that the caller set. */
  readonly title: string | undefined;
  readonly tags: readonly string[];
  readonly archived: boolean;
  /** In its encoded form. */
  readonly metadata: Shadow | undefined;
  /** The first messages, as ranges on the tapes of conversations, by their numbers. */
  readonly base: readonly Piece[];
  /** The items of its own tape from this number on follow the base. */
  readonly tapeStart: number;
}

interface StoredFields {
  n: number;
  o?: number | undefined;
  a?: string | undefined;
  t: number;
  i?: string | undefined;
  g?: readonly string[] | undefined;
  x?: 1 | undefined;
  m?: Shadow | undefined;
  b?: string | undefined;
  f?: number | undefined;
}

const areStoredFields = objectOf({
  n: isCounter,
  o: optional(isCounter),
  a: optional(isId),
  t: isNumber,
  i: optional(isString),
  g: optional(listOf(isString)),
  b: optional(isString),
  f: optional(isCounter),
});

export function encodeConversation(record: ConversationRecord): string {
  const { number, order, agent, createdAt, title, tags, archived, metadata, base, tapeStart } = record;
  const stored: StoredFields = {
    n: number,
    o: order === number ? undefined : order,
    a: agent,
    t: createdAt,
    i: title,
    g: tags.length > 0 ? tags : undefined,
    x: archived ? 1 : undefined,
    m: metadata,
    b: base.length > 0 ? formatPieces(base, number) : undefined,
    f: tapeStart > 0 ? tapeStart : undefined,
  };
  return JSON.stringify(stored);
}

export function decodeConversation(value: string): ConversationRecord {
  const {
    n,
    o = n,
    a,
    t,
    i,
    g = [],
    x,
    m,
    b = "",
    f = 0,
  } = parseRecord<StoredFields>(value, areStoredFields, "conversation");
  return {
    number: n,
    order: o,
    agent: a,
    createdAt: t,
    title: i,
    tags: g,
    archived: x === 1,
    metadata: m,
    base: parsePieces(b, n),
    tapeStart: f,
  };
}

/** The pieces of all its messages, for a tape of `items` items. */
export function piecesOf({ number, base, tapeStart }: ConversationRecord, items: number): Piece[] {
  return coalesce([...base, { tape: number, start: tapeStart, count: items - tapeStart }]);
}

/** The inverse of {@link piecesOf}: the base, and the item from which a tape of `items` items continues. */
export function splitPieces(
  pieces: readonly Piece[],
  number: number,
  items: number,
): Pick<ConversationRecord, "base" | "tapeStart"> {
  const last = pieces.at(-1);
  const isOpen = last?.tape === number && last.start + last.count === items;
  return isOpen ? { base: pieces.slice(0, -1), tapeStart: last.start } : { base: [...pieces], tapeStart: items };
}

export const conversationKey = (id: string): string => `c\t${id}`;
/** All records of conversations, their counters and derived titles included. */
export const ALL_CONVERSATIONS: KeyRange = prefixRange("c\t");
/** The id of the conversation that a key of {@link ALL_CONVERSATIONS} belongs to. */
export const conversationOfKey = (key: string): string => key.split("\t")[1] as string;
/** A record beside the conversation's own. It names the number: a conversation that is created again does not see it. */
const conversationPart = (id: string, part: string, number: number): string =>
  `c\t${id}\t${part}${encodeNumber(number)}`;
export const messageCounterKey = (id: string, number: number): string => conversationPart(id, "n", number);
export const lastMessageTimeKey = (id: string, number: number): string => conversationPart(id, "l", number);
export const derivedTitleKey = (id: string, number: number): string => conversationPart(id, "t", number);
export const partsOfConversation = (id: string): KeyRange => prefixRange(`c\t${id}\t`);
/** The tape of a conversation's messages. */
export const messageTape = (number: number): string => tapeName(number, 0);

/** The id of a conversation, by its number. */
export const conversationNumberKey = (number: number): string => `k${encodeNumber(number)}`;
/** All digits and letters that an encoded number can start with, and not the tab of {@link agentConversationKey}. */
export const ALL_CONVERSATION_NUMBERS: KeyRange = { from: "k0", to: "l" };
/** The id of a conversation, by its agent; `undefined` for conversations without an agent. */
export const agentConversationKey = (agent: string | undefined, number: number): string =>
  `k\t${agent ?? ""}\t${encodeNumber(number)}`;
export const conversationsOf = (agent: string | undefined): KeyRange => prefixRange(`k\t${agent ?? ""}\t`);
export const ALL_AGENT_CONVERSATIONS: KeyRange = prefixRange("k\t");
export const agentOfAgentConversationKey = (key: string): string | undefined => key.split("\t")[1] || undefined;

/**
 * A conversation of an agent that has changed since the agent's newest checkpoint. The value differs with every change, so that a
 * checkpoint removes only the marks of changes that it contains.
 */
export const changedConversationKey = (agent: string, id: string): string => `d\t${agent}\t${id}`;
export const changedConversationsOf = (agent: string): KeyRange => prefixRange(`d\t${agent}\t`);
export const conversationOfChangedKey = (key: string): string => key.split("\t")[2] as string;
/** The checkpoint of an agent that the marks of changed conversations refer to. */
export const snapshotBaseKey = (agent: string): string => `d\t${agent}`;
/** Contains the marks of changed conversations too. */
export const ALL_SNAPSHOT_BASES: KeyRange = prefixRange("d\t");
export const isSnapshotBaseKey = (key: string): boolean => key.split("\t").length === 2;

/** The checkpoint whose snapshots of conversations are up to date, except those of the changed ones. */
export interface SnapshotBase {
  /** The snapshots are in the versions of the agent that have this stamp in their metadata. */
  readonly stamp: string;
  readonly seq: number;
}

export const encodeSnapshotBase = ({ stamp, seq }: SnapshotBase): string => `${stamp} ${seq}`;

export function decodeSnapshotBase(value: string): SnapshotBase {
  const [stamp = "", seq] = value.split(" ");
  return { stamp, seq: Number(seq) };
}

/** A removed conversation that checkpoints of its agent may still refer to. */
export const removedConversationKey = (agent: string, number: number): string => `y\t${agent}\t${encodeNumber(number)}`;
export const removedConversationsOf = (agent: string): KeyRange => prefixRange(`y\t${agent}\t`);
export const ALL_REMOVED_CONVERSATIONS: KeyRange = prefixRange("y\t");
