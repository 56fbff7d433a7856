/** Reads conversations: what they are, and their messages. It caches nothing. */
import { SavepointError } from "../errors.js";
import type { Piece, Unreadable } from "../state/index.js";
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

/** All that is stored of a conversation but its messages. */
export interface StoredConversation {
  readonly id: string;
  readonly record: ConversationRecord;
  /** The text of the record, which a commit checks. */
  readonly value: string;
  /** How many items its tape has; likewise. */
  readonly items: number;
  readonly lastMessageAt: number;
  /** The title that its first message gave it. */
  readonly firstTitle: string | undefined;
}

/** A conversation that is there and cannot be read. */
export interface DamagedConversation extends Unreadable {
  readonly id: string;
}

/** The conversations with these ids, one for one, all as they were at one moment. */
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
  // Again, and all at one moment: what was read before said only where the rest is.
  const found = await context.store.get([...ids.map(conversationKey), ...keys]);
  let next = ids.length;
  return numbers.map((number, index) => {
    const [id, main] = [ids[index] as string, found[index]];
    const parts = number === undefined ? [] : found.slice(next, (next += 3));
    if (!main) return undefined;
    return toStored(context, id, number, main, parts);
  });
}

/** One conversation; `DAMAGED` if it cannot be read. */
export async function readConversation(context: Context, id: string): Promise<StoredConversation | undefined> {
  const [stored] = await readConversations(context, [id]);
  if (stored && "unreadable" in stored) throw damagedConversation(stored);
  return stored;
}

/** Those that can be read; the others are reported, and left out. */
export async function readIntactConversations(context: Context, ids: readonly string[]): Promise<StoredConversation[]> {
  const found = await readConversations(context, ids);
  return found.filter((stored): stored is StoredConversation => stored !== undefined && !("unreadable" in stored));
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
  // Deleted and made again in between: its other records are elsewhere, and it is as good as not there yet.
  if (record.number !== number || !counter) return undefined;
  const at = last && optional(context, id, last);
  const firstTitle = title && optional(context, id, title);
  return {
    id,
    record,
    value,
    items: Number((counter as StoredRecord).value),
    lastMessageAt: at === undefined ? record.createdAt : Number(at),
    firstTitle: firstTitle === undefined ? undefined : (JSON.parse(firstTitle) as string),
  };
}

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

/** A conversation with its messages, or the page of them that is asked for. */
export async function loadConversation(
  context: Context,
  id: string,
  options: LoadConversationOptions,
): Promise<Conversation<unknown> | undefined> {
  for (let before: StoredConversation | undefined; ;) {
    const stored = await readConversation(context, id);
    if (!stored) return undefined;
    const pieces = piecesOf(stored.record, stored.items);
    // What is missing may have been cut and freed while it was read. If nothing has changed since, it is damage.
    const last = before?.value === stored.value;
    const loaded = await loadMessages(context, id, pieces, options, last);
    if (loaded) return { ...toConversationInfo(stored, context), ...loaded };
    before = stored;
  }
}

export type MessagePage = Pick<Conversation<unknown>, "messages" | "entries" | "first" | "holes">;

/** @param last is damage certain? Otherwise `undefined` says that there may be some, and to look again */
export async function loadMessages(
  context: Context,
  id: string,
  pieces: readonly Piece[],
  { limit = Number.POSITIVE_INFINITY, before = Number.POSITIVE_INFINITY, partial = false }: LoadConversationOptions,
  last: boolean,
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
    if (!last) return undefined;
    const [hole] = holes as [(typeof holes)[0]];
    reportDamage(context, id, `message ${hole.index}: ${hole.reason}`);
    if (!partial) throw damagedMessages(id, holes.length, hole);
  }
  return { messages: entries.map(({ message }) => message), entries, first, holes };
}

/** The messages in these ranges, one for one. */
export async function readMessages(
  { store, registry }: Context,
  pieces: readonly Piece[],
): Promise<(ConversationEntry<unknown> | Unreadable)[]> {
  const found: (ConversationEntry<unknown> | Unreadable)[] = [];
  for (const { frame, place } of await readMessageFrames(store, pieces)) {
    if ("unreadable" in frame) found.push(frame);
    // Most have no bytes, and need not wait for anything.
    else if (frame.refs === "") found.push(decodeMessage(frame, place, registry));
    else found.push(await decodeMessageWithBlobs(frame, place, registry, store));
  }
  return found;
}

/** The items in these ranges as they are stored, one for one, and where each is. */
export async function readMessageFrames(
  store: Store,
  pieces: readonly Piece[],
): Promise<{ readonly frame: Frame | Unreadable; readonly place: CheckpointPlace }[]> {
  const frames = await store.items(pieces.map(({ tape, start, count }) => ({ tape: messageTape(tape), start, count })));
  const places = pieces.flatMap(({ tape: number, start, count }) =>
    Array.from({ length: count }, (_, index) => ({ number, seq: start + index })),
  );
  return places.map((place, index) => ({ place, frame: frames[index] ?? { unreadable: "it is missing" } }));
}

export function reportDamage({ events }: Context, conversationId: string, reason: string): void {
  events.emit("damage", { sessionId: undefined, conversationId, checkpointId: undefined, seq: undefined, reason });
}

export function damagedConversation({ id, unreadable }: DamagedConversation): SavepointError<"DAMAGED"> {
  return new SavepointError(
    "DAMAGED",
    `Conversation ${JSON.stringify(id)} is damaged: ${unreadable}. Restore a checkpoint of its agent, or delete it.`,
    { details: { conversationId: id } },
  );
}

/** What can be done without is. */
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
