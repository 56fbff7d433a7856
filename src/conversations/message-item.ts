/** Messages as they are stored: one item each, with the time of the append and the message. Large bytes are blobs. */
import { isSavepointError, SavepointError } from "../errors.js";
import {
  type ClassRegistry,
  valueToShadow,
  decodeState,
  encodeShadow,
  type Frame,
  parseStoredJson,
  type Piece,
  type Shadow,
  shadowToValue,
  type StateReader,
  type Unreadable,
} from "../state/index.js";
import { isAnything, isNumber, isString, optional, tupleOf } from "../util/index.js";
import type { ConversationEntry } from "./conversation.js";
import { messageIdAt, type CheckpointPlace } from "../records/index.js";
import { describeMessage } from "../messages/index.js";

/** Messages as items, and the blobs that they refer to, by hash. */
export interface EncodedMessages {
  readonly frames: readonly Frame[];
  readonly blobs: ReadonlyMap<string, Uint8Array>;
}

/** Encodes messages, and keeps no reference to them. Unsupported values are rejected with the path to them. */
export function encodeMessages(messages: readonly unknown[], time: number, registry: ClassRegistry): EncodedMessages {
  const blobs = new Map<string, Uint8Array>();
  const frames = messages.map((message, index) => {
    if (typeof message !== "object" || message === null) throw notAMessage(message, index);
    const copy = valueToShadow(message, registry, { parent: undefined, key: index });
    // The shadow is inline, so it has no ranges and needs no tape. Only bytes are stored outside of it.
    const encoded = encodeShadow([time, copy], 0, 0);
    for (const [hash, bytes] of encoded.blobs) blobs.set(hash, bytes);
    return encoded.skeleton;
  });
  return { frames, blobs };
}

/** The item of a message that is moved to another place. The item then contains the id that the message had before. */
export function moveMessage(frame: Frame, from: CheckpointPlace): Frame {
  const [time, message, id] = parseItem(frame);
  if (id !== undefined || describeMessage(message)?.id !== undefined) return frame;
  return { ...frame, json: `${frame.json.slice(0, -1)},${JSON.stringify(messageIdAt(time, from))}]` };
}

/** Decodes an item without blobs; `unreadable` if its content is invalid. See {@link decodeMessageWithBlobs}. */
export function decodeMessage(
  frame: Frame,
  place: CheckpointPlace,
  registry: ClassRegistry,
): ConversationEntry<unknown> | Unreadable {
  try {
    return toEntry(parseItem(frame) as Shadow, place, registry);
  } catch (error) {
    return toUnreadable(error);
  }
}

/** Decodes an item and reads its blobs; `unreadable` if one of them is damaged. */
export async function decodeMessageWithBlobs(
  frame: Frame,
  place: CheckpointPlace,
  registry: ClassRegistry,
  reader: Pick<StateReader, "blob">,
): Promise<ConversationEntry<unknown> | Unreadable> {
  try {
    const stored = await decodeState(frame, 0, { blob: (hash) => reader.blob(hash), items: noItems });
    return toEntry(stored, place, registry);
  } catch (error) {
    return toUnreadable(error);
  }
}

function toUnreadable(error: unknown): Unreadable {
  if (isSavepointError(error, "DAMAGED")) return { unreadable: error.message };
  throw error;
}

type MessageItem = [time: number, message: Shadow, id?: string];
const isMessageItem = tupleOf(isNumber, isAnything, optional(isString));

function parseItem({ json }: Frame): MessageItem {
  const item = parseStoredJson(json);
  if (isMessageItem(item)) return item as MessageItem;
  throw new SavepointError("DAMAGED", "A stored message is damaged: it has no time.");
}

function toEntry(stored: Shadow, place: CheckpointPlace, registry: ClassRegistry): ConversationEntry<unknown> {
  const [time, message, id] = shadowToValue(stored, registry) as [number, unknown, string?];
  const entry = draftEntry(message, time);
  return assignEntryId(id === undefined ? entry : { ...entry, id }, time, place);
}

/** Describes a message that has no place yet. */
export function draftEntry<M>(message: M, time: number): EntryDraft<M> {
  const { id, timestamp = time, role, text = "" } = describeMessage(message) ?? {};
  return { id, timestamp, role, text, message };
}

/**
 * An entry without a place. Its id is `undefined` if the message has none of its own: then it is derived from the place.
 */
export type EntryDraft<M> = Omit<ConversationEntry<M>, "id"> & { readonly id: string | undefined };

/**
 * Completes an entry when its place is known.
 *
 * @param time when the message was appended
 */
export function assignEntryId<M>(entry: EntryDraft<M>, time: number, place: CheckpointPlace): ConversationEntry<M> {
  return { ...entry, id: entry.id ?? messageIdAt(time, place) };
}

async function noItems(pieces: readonly Piece[]): Promise<never[]> {
  if (pieces.length === 0) return [];
  throw new SavepointError("DAMAGED", "A message refers to other items, which messages never do.");
}

function notAMessage(message: unknown, index: number): SavepointError {
  return new SavepointError(
    "INVALID_ARGUMENT",
    `Message ${index} is ${message === null ? "null" : `of type ${typeof message}`}, not an object. Create messages with message.user() and the like, or pass those of your SDK.`,
  );
}
