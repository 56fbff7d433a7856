/** A message as it is stored: one item, the time it came and the message itself. Large bytes in it are blobs. */
import { isSavepointError, SavepointError } from "../errors.js";
import {
  type ClassRegistry,
  valueToShadow,
  decodeState,
  encodeShadow,
  type Frame,
  type Piece,
  type Shadow,
  shadowToValue,
  type StateReader,
  type Unreadable,
} from "../state/index.js";
import type { ConversationEntry } from "./conversation.js";
import { messageIdAt, type CheckpointPlace } from "../records/index.js";
import { describeMessage } from "../messages/index.js";

export interface EncodedMessages {
  readonly frames: readonly Frame[];
  readonly blobs: ReadonlyMap<string, Uint8Array>;
}

/** Nothing is kept of the objects that are given. What cannot be stored is refused with the path to it. */
export function encodeMessages(messages: readonly unknown[], time: number, registry: ClassRegistry): EncodedMessages {
  const blobs = new Map<string, Uint8Array>();
  const frames = messages.map((message, index) => {
    if (typeof message !== "object" || message === null) throw notAMessage(message, index);
    const copy = valueToShadow(message, registry, { parent: undefined, key: index });
    // A tape is named only by ranges, and there are none: bytes are all that leaves an inline shadow.
    const encoded = encodeShadow([time, copy], 0, 0);
    for (const [hash, bytes] of encoded.blobs) blobs.set(hash, bytes);
    return encoded.skeleton;
  });
  return { frames, blobs };
}

/** The item of a message that moves to another place, and keeps its id. */
export function moveMessage(frame: Frame, from: CheckpointPlace): Frame {
  const [time, message, id] = JSON.parse(frame.json) as [number, unknown, string?];
  if (id !== undefined || describeMessage(message)?.id !== undefined) return frame;
  return { ...frame, json: `${frame.json.slice(0, -1)},${JSON.stringify(messageIdAt(time, from))}]` };
}

/** The message in an item, with what is known of it. Its bytes are not read: see {@link decodeMessageWithBlobs}. */
export function decodeMessage(
  frame: Frame,
  place: CheckpointPlace,
  registry: ClassRegistry,
): ConversationEntry<unknown> {
  return toEntry(JSON.parse(frame.json) as Shadow, place, registry);
}

/** The same for a message with bytes; or why they cannot be read. */
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
    if (isSavepointError(error, "DAMAGED")) return { unreadable: error.message };
    throw error;
  }
}

function toEntry(stored: Shadow, place: CheckpointPlace, registry: ClassRegistry): ConversationEntry<unknown> {
  const [time, message, id] = shadowToValue(stored, registry) as [number, unknown, string?];
  const entry = draftEntry(message, time);
  return assignEntryId(id === undefined ? entry : { ...entry, id }, time, place);
}

/** What a message says of itself, before it has a place. */
export function draftEntry<M>(message: M, time: number): EntryDraft<M> {
  const { id, timestamp = time, role, text = "" } = describeMessage(message) ?? {};
  return { id, timestamp, role, text, message };
}

export type EntryDraft<M> = Omit<ConversationEntry<M>, "id"> & { readonly id: string | undefined };

/** @param time when it was appended */
export function assignEntryId<M>(entry: EntryDraft<M>, time: number, place: CheckpointPlace): ConversationEntry<M> {
  return { ...entry, id: entry.id ?? messageIdAt(time, place) };
}

async function noItems(pieces: readonly Piece[]): Promise<never[]> {
  if (pieces.length === 0) return [];
  throw new SavepointError("DAMAGED", "A message refers to items, which messages do not have.");
}

function notAMessage(message: unknown, index: number): SavepointError {
  return new SavepointError(
    "INVALID_ARGUMENT",
    `Message ${index} is ${message === null ? "null" : `of type ${typeof message}`}, not an object. Make messages with message.user() and its siblings, or give those of your SDK.`,
  );
}
