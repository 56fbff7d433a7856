/** Reads conversations and their messages. Nothing is cached. */
import { SavepointError } from "../errors.js";
import { BoundedReader, parseStoredString, type Piece, type Unreadable } from "../state/index.js";
import type { RecordResult, Frame, Store, StoredRecord } from "../store/index.js";
import { validateCount } from "../util/index.js";
import type { Context } from "../context.js";
import type { Conversation, ConversationEntry, ConversationInfo, LoadConversationOptions } from "./conversation.js";
import {
  conversationKey,
  type ConversationRecord,
  countPieces,
  decodeConversation,
  decodeMetadata,
  derivedTitleKey,
  lastMessageTimeKey,
  messageCounterKey,
  messageTape,
  piecesOf,
  type CheckpointPlace,
  slicePieces,
} from "../records/index.js";
import { decodeMessage, decodeMessageWithBlobs } from "./message-item.js";

/** A conversation as it is stored, without its messages. */
export interface StoredConversation {
  readonly id: string;
  readonly record: ConversationRecord;
  /** The encoded record, for the check of a commit. */
  readonly value: string;
  /** How many items its tape has, for the check of a commit. */
  readonly items: number;
  readonly lastMessageAt: number;
  /** The title that the first message of a user gave it. */
  readonly firstTitle: string | undefined;
}

/** A conversation that exists but cannot be read. */
export interface DamagedConversation extends Unreadable {
  readonly id: string;
}

/**
 * Reads conversations at one moment, in the order of the ids; `undefined` for those that do not exist. Emits `damage`.
 */
export async function readConversations(
  context: Context,
  ids: readonly string[],
): Promise<(StoredConversation | DamagedConversation | undefined)[]> {
  const mains = await context.store.get(ids.map(conversationKey));
  const numbers = mains.map((main) => (main && "value" in main ? decodeConversation(main.value).number : undefined));
  const keys = numbers.flatMap((number, index) => {
    const id = ids[index] as string;
    if (number === undefined) return [];
    return [messageCounterKey, lastMessageTimeKey, derivedTitleKey].map((key) => key(id, number));
  });
  // All records are read again, at one moment, because the first read was only for the numbers in the keys.
  const found = await context.store.get([...ids.map(conversationKey), ...keys]);
  let next = ids.length;
  return numbers.map((number, index) => {
    const [id, main] = [ids[index] as string, found[index]];
    const parts = number === undefined ? [] : found.slice(next, (next += 3));
    if (!main) return undefined;
    return toStored(context, id, number, main, parts);
  });
}

/**
 * Reads one conversation; `undefined` if it does not exist.
 *
 * @throws DAMAGED if it cannot be read
 */
export async function readConversation(context: Context, id: string): Promise<StoredConversation | undefined> {
  const [stored] = await readConversations(context, [id]);
  if (stored && "unreadable" in stored) throw damagedConversation(stored);
  return stored;
}

/** Reads the conversations that are intact. Damaged ones are left out, and emit `damage`. */
export async function readIntactConversations(context: Context, ids: readonly string[]): Promise<StoredConversation[]> {
  return (await readConversations(context, ids)).filter(isIntactConversation);
}

/** Whether a conversation exists and can be read. */
export function isIntactConversation(
  stored: StoredConversation | DamagedConversation | undefined,
): stored is StoredConversation {
  return stored !== undefined && !("unreadable" in stored);
}

function toStored(
  context: Context,
  id: string,
  number: number | undefined,
  main: RecordResult,
  [counter, last, title]: readonly (RecordResult | undefined)[],
): StoredConversation | DamagedConversation | undefined {
  const broken = [main, counter].find((record) => record && !("value" in record));
  if (broken && "unreadable" in broken) {
    reportDamage(context, id, broken.unreadable);
    return { id, unreadable: broken.unreadable };
  }
  const { value } = main as StoredRecord;
  const record = decodeConversation(value);
  // The conversation was deleted and created again between the two reads, so its other records were not read. The new
  // conversation counts as not created yet.
  if (record.number !== number || !counter) return undefined;
  const at = last && optional(context, id, last);
  const firstTitle = title && optional(context, id, title);
  return {
    id,
    record,
    value,
    items: Number((counter as StoredRecord).value),
    lastMessageAt: at === undefined ? record.createdAt : Number(at),
    firstTitle: firstTitle === undefined ? undefined : parseStoredString(firstTitle),
  };
}

/** A conversation in its public form. */
export function toConversationInfo(stored: StoredConversation, context: Context): ConversationInfo {
  const { id, record, items, lastMessageAt, firstTitle } = stored;
  return {
    id,
    agent: record.agent,
    title: record.title ?? firstTitle,
    tags: record.tags,
    archived: record.archived,
    metadata: decodeMetadata(record.metadata, context.registry),
    createdAt: record.createdAt,
    lastMessageAt,
    messageCount: countPieces(piecesOf(record, items)),
  };
}

/** Loads a conversation with its messages, or a page of them; `undefined` if it does not exist. */
export async function loadConversation(
  context: Context,
  id: string,
  options: LoadConversationOptions,
): Promise<Conversation<unknown> | undefined> {
  for (let before: StoredConversation | undefined; ;) {
    const stored = await readConversation(context, id);
    if (!stored) return undefined;
    const pieces = piecesOf(stored.record, stored.items);
    // A missing message may have been replaced and freed since the record was read. If the record is unchanged, the
    // missing message is damage.
    const isUnchanged = before?.value === stored.value;
    const loaded = await loadMessages(context, id, pieces, options, isUnchanged);
    if (loaded) return { ...toConversationInfo(stored, context), ...loaded };
    before = stored;
  }
}

/** The messages of a conversation, or a page of them. */
export type MessagePage = Pick<Conversation<unknown>, "messages" | "entries" | "first" | "holes">;

/**
 * Loads the messages in these ranges.
 *
 * @param isUnchanged whether a missing message is damage. If not, the result for a missing message is `undefined`, and
 *   the caller reads the conversation again.
 */
export async function loadMessages(
  context: Context,
  id: string,
  pieces: readonly Piece[],
  { limit = Number.POSITIVE_INFINITY, before = Number.POSITIVE_INFINITY, partial = false }: LoadConversationOptions,
  isUnchanged: boolean,
): Promise<MessagePage | undefined> {
  validateCount(limit, "`limit`");
  validateCount(before, "`before`");
  const end = Math.min(countPieces(pieces), before);
  const first = Math.max(0, end - limit);
  const found = await readMessages(context, slicePieces(pieces, first, end));
  const entries: ConversationEntry<unknown>[] = [];
  const holes: { index: number; reason: string }[] = [];
  for (const [index, entry] of found.entries()) {
    if (!("unreadable" in entry)) entries.push(entry);
    else holes.push({ index: first + index, reason: entry.unreadable });
  }
  if (holes.length > 0) {
    if (!isUnchanged) return undefined;
    const [hole] = holes as [(typeof holes)[0]];
    reportDamage(context, id, `message ${hole.index}: ${hole.reason}`);
    if (!partial) throw damagedMessages(id, holes.length, hole);
  }
  return { messages: entries.map(({ message }) => message), entries, first, holes };
}

/** Reads the messages in these ranges, in their order. */
export async function readMessages(
  { store, registry }: Context,
  pieces: readonly Piece[],
): Promise<(ConversationEntry<unknown> | Unreadable)[]> {
  const found: (ConversationEntry<unknown> | Unreadable)[] = [];
  for (const { frame, place } of await readMessageFrames(store, pieces)) {
    if ("unreadable" in frame) found.push(frame);
    // Most messages have no blobs, and are decoded synchronously.
    else if (frame.refs === "") found.push(decodeMessage(frame, place, registry));
    else found.push(await decodeMessageWithBlobs(frame, place, registry, store));
  }
  return found;
}

/** Reads the items in these ranges as they are stored, in their order, with their places. */
export async function readMessageFrames(
  store: Store,
  pieces: readonly Piece[],
): Promise<{ readonly frame: Frame | Unreadable; readonly place: CheckpointPlace }[]> {
  const reader = new BoundedReader({
    items: (parts) => store.items(parts.map(({ tape, start, count }) => ({ tape: messageTape(tape), start, count }))),
    blob: (hash) => store.blob(hash),
  });
  const frames = await reader.items(pieces);
  const places = pieces.flatMap(({ tape: number, start, count }) =>
    Array.from({ length: count }, (_, index) => ({ number, seq: start + index })),
  );
  return places.map((place, index) => ({ place, frame: frames[index] ?? { unreadable: "it is missing" } }));
}

/** Emits `damage` for a conversation. */
export function reportDamage({ events }: Context, conversationId: string, reason: string): void {
  events.emit("damage", { sessionId: undefined, conversationId, checkpointId: undefined, seq: undefined, reason });
}

/** The error for a conversation whose record is damaged. */
export function damagedConversation({ id, unreadable }: DamagedConversation): SavepointError<"DAMAGED"> {
  return new SavepointError(
    "DAMAGED",
    `Conversation ${JSON.stringify(id)} is damaged: ${unreadable}. Restore a checkpoint of its agent, or delete it.`,
    { details: { conversationId: id } },
  );
}

/** The value of a record that a conversation can do without; `undefined` if it is damaged. */
function optional(context: Context, id: string, record: RecordResult): string | undefined {
  if ("value" in record) return record.value;
  reportDamage(context, id, record.unreadable);
  return undefined;
}

function damagedMessages(id: string, count: number, hole: { index: number; reason: string }): SavepointError {
  const more = count > 1 ? ` and ${count - 1} more` : "";
  return new SavepointError(
    "DAMAGED",
    `Conversation ${JSON.stringify(id)} is damaged: message ${hole.index}${more} cannot be read (${hole.reason}). Load it with { partial: true } to get the others.`,
    { details: { conversationId: id } },
  );
}
