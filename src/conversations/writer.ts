/**
 * Writes conversations. Appending is one commit that knows nothing of what is there already: the store numbers the new
 * messages, so that any number of writers lose nothing. Everything else replaces the conversation's record, after a look.
 */
import { isSavepointError, SavepointError } from "../errors.js";
import type { Piece } from "../state/index.js";
import type { Commit, Frame, Put } from "../store/index.js";
import { freeGarbage, isConflictOn, type NumberSource } from "../sessions/index.js";
import type { Context } from "../context.js";
import type { ConversationEntry } from "./conversation.js";
import { findRemovable, conversationPuts, planConversationRemoval, firstTitlePut } from "./commit.js";
import type { ConversationFields } from "./fields.js";
import { readConversation, readMessageFrames, type StoredConversation } from "./reader.js";
import {
  agentHistoryId,
  conversationKey,
  type ConversationRecord,
  derivedTitleKey,
  joinPieces,
  lastMessageTimeKey,
  messageCounterKey,
  messageTape,
  piecesOf,
  sessionKey,
  splitPieces,
} from "../records/index.js";
import { draftEntry, encodeMessages, type EncodedMessages, assignEntryId, type EntryDraft } from "./message-item.js";
import { allocateConversationNumber } from "./moved-numbers.js";
import { toTitle } from "./title.js";

/** Conversations whose numbers are remembered, so that appending to them takes no look. */
const MAX_KNOWN = 10_000;
/** Ranges of a conversation that was edited often; with more, its messages are written anew. */
const MAX_PIECES = 256;

export class ConversationWriter {
  readonly #context: Context;
  readonly #numbers: NumberSource;
  /** Their numbers, by id. */
  readonly #known = new Map<string, number>();
  readonly #looking = new Map<string, Promise<number>>();

  constructor(context: Context, numbers: NumberSource) {
    this.#context = context;
    this.#numbers = numbers;
  }

  /** Makes a conversation. @throws CONFLICT if there is one with that id */
  async create(taken: ConversationFields, messages: readonly unknown[]): Promise<string> {
    const { registry, store } = this.#context;
    const now = this.#context.now();
    // All that is taken from the messages is taken now: the objects are the caller's own.
    const encoded = encodeMessages(messages, now, registry);
    const entries = describeAll(messages, () => now);
    const number = await allocateConversationNumber(this.#context, this.#numbers, taken.agent);
    const id = taken.id ?? this.#context.newId({ number, seq: 0 });
    const { agent } = taken;
    const record: ConversationRecord = {
      ...taken.record,
      number,
      order: number,
      agent,
      createdAt: now,
      base: [],
      tapeStart: 0,
    };
    try {
      await store.commit({
        checks: [{ key: conversationKey(id), value: undefined }],
        puts: [
          ...conversationPuts(id, record),
          { key: messageCounterKey(id, number), value: String(entries.length) },
          ...messagePuts(id, number, entries),
        ],
        ...itemsOf(number, 0, encoded),
      });
    } catch (error) {
      if (isSavepointError(error, "CONFLICT")) throw conversationExists(id, error);
      throw error;
    }
    this.#remember(id, number);
    return id;
  }

  /** Adds messages at the end. They stand side by side, and in order. */
  async append(id: string, messages: readonly unknown[]): Promise<ConversationEntry<unknown>[]> {
    const now = this.#context.now();
    const encoded = encodeMessages(messages, now, this.#context.registry);
    const described = describeAll(messages, () => now);
    const title = titleOf(described);
    if (described.length === 0) {
      await this.#require(id);
      return [];
    }
    for (;;) {
      const number = this.#known.get(id) ?? (await this.#look(id));
      try {
        const { firsts } = await this.#context.store.commit({
          checks: [{ key: messageCounterKey(id, number), exists: true }],
          puts: [
            lastMessagePut(id, number, described),
            ...(title === undefined ? [] : [{ ...firstTitlePut(id, number, title), ifAbsent: true }]),
          ],
          items: [{ tape: messageTape(number), counter: messageCounterKey(id, number), items: encoded.frames }],
          blobs: blobsOf(encoded),
        });
        const first = firsts[0] as number;
        return described.map((entry, index) => assignEntryId(entry, now, { number, seq: first + index }));
      } catch (error) {
        // It was deleted, and perhaps made again.
        this.#known.delete(id);
        if (!isSavepointError(error, "CONFLICT") || !isConflictOn(error, messageCounterKey(id, number))) throw error;
      }
    }
  }

  /** One look for all who append at once: they go on in the order in which they came. */
  #look(id: string): Promise<number> {
    const known = this.#looking.get(id);
    if (known) return known;
    const looking = this.#require(id)
      .then(({ record }) => this.#remember(id, record.number))
      .finally(() => this.#looking.delete(id));
    this.#looking.set(id, looking);
    return looking;
  }

  /**
   * Puts messages in the place of those that are there; messages that are there already are not written again.
   *
   * @param messages nobody else's
   * @returns `false` where the conversation was changed since it was read
   */
  async replace(stored: StoredConversation, taken: ConversationFields, messages: readonly unknown[]): Promise<boolean> {
    const { id, record, items } = stored;
    const { number } = record;
    const now = this.#context.now();
    const encoded = encodeMessages(messages, now, this.#context.registry);
    const places = await this.#placesOf(piecesOf(record, items));
    const pieces: Piece[] = [];
    const times: number[] = [];
    const added: Frame[] = [];
    for (const frame of encoded.frames) {
      const place = places.get(contentOf(frame))?.shift();
      if (!place) added.push(frame);
      pieces.push(place?.piece ?? { tape: number, start: items + added.length - 1, count: 1 });
      times.push(place?.time ?? now);
    }
    const joined = joinPieces(pieces);
    const anew = joined.length > MAX_PIECES;
    const written = anew ? encoded.frames : added;
    const end = items + written.length;
    const all = anew ? [{ tape: number, start: items, count: written.length }] : joined;
    // A title that comes back as its first message gave it was not given by anybody.
    const given = taken.record.title === stored.firstTitle ? undefined : taken.record.title;
    const next = { ...record, ...taken.record, title: given, ...splitPieces(all, number, end) };
    const entries = describeAll(messages, (index) => (anew ? now : (times[index] as number)));
    const title = titleOf(entries);
    const done = await this.#commitChange(stored, {
      puts: [
        ...conversationPuts(id, next),
        { key: messageCounterKey(id, number), value: String(end) },
        ...messagePuts(id, number, entries),
      ],
      deletes: [
        ...(entries.length === 0 ? [lastMessageTimeKey(id, number)] : []),
        ...(title === undefined ? [derivedTitleKey(id, number)] : []),
      ],
      ...itemsOf(number, items, { ...encoded, frames: written }),
    });
    if (done) this.#known.delete(id);
    return done;
  }

  /** Changes what is said about a conversation. */
  async change(id: string, change: (record: ConversationRecord) => ConversationRecord): Promise<void> {
    for (;;) {
      const stored = await this.#require(id);
      const record = change(stored.record);
      try {
        await this.#context.store.commit({
          checks: [{ key: conversationKey(id), value: stored.value }],
          puts: conversationPuts(id, record),
        });
        return;
      } catch (error) {
        if (!isSavepointError(error, "CONFLICT")) throw error;
      }
    }
  }

  /** Returns whether there was one. Its messages stay for as long as checkpoints of its agent need them. */
  async delete(id: string): Promise<boolean> {
    for (;;) {
      const found = await findRemovable(this.#context, id);
      if (!found) return false;
      const line = sessionKey(agentHistoryId(found.agent ?? ""));
      const [agent] = await this.#context.store.get([line]);
      const { deletes, puts } = planConversationRemoval(id, found, agent !== undefined);
      try {
        await this.#context.store.commit({
          checks: [
            found.check,
            // If it has an agent by now, that may have a checkpoint as well.
            agent ? { key: line, exists: true } : { key: line, value: undefined },
          ],
          deletes,
          puts,
        });
        this.#known.delete(id);
        if (!agent) await freeGarbage(this.#context, found.number);
        return true;
      } catch (error) {
        if (!isSavepointError(error, "CONFLICT")) throw error;
      }
    }
  }

  /** Forgets what it knows: conversations were changed by other means. */
  forget(): void {
    this.#known.clear();
  }

  /** Where messages with the same content are, and when they came. */
  async #placesOf(pieces: readonly Piece[]): Promise<Map<string, { piece: Piece; time: number }[]>> {
    const places = new Map<string, { piece: Piece; time: number }[]>();
    for (const { frame, place } of await readMessageFrames(this.#context.store, pieces)) {
      // One that cannot be read is written anew.
      if ("unreadable" in frame) continue;
      const content = contentOf(frame);
      const known = places.get(content) ?? [];
      places.set(content, known);
      known.push({ piece: { tape: place.number, start: place.seq, count: 1 }, time: timeOf(frame) });
    }
    return places;
  }

  /** `false` where it was changed since it was read, or a message has come. */
  async #commitChange({ id, record, value, items }: StoredConversation, commit: Commit): Promise<boolean> {
    try {
      await this.#context.store.commit({
        ...commit,
        checks: [
          { key: conversationKey(id), value },
          { key: messageCounterKey(id, record.number), value: String(items) },
        ],
      });
      return true;
    } catch (error) {
      if (isSavepointError(error, "CONFLICT")) return false;
      throw error;
    }
  }

  #remember(id: string, number: number): number {
    if (this.#known.size >= MAX_KNOWN) this.#known.clear();
    this.#known.set(id, number);
    return number;
  }

  async #require(id: string): Promise<StoredConversation> {
    const stored = await readConversation(this.#context, id);
    if (!stored) throw conversationNotFound(id);
    return stored;
  }
}

export function conversationNotFound(id: string): SavepointError<"CONVERSATION_NOT_FOUND"> {
  return new SavepointError(
    "CONVERSATION_NOT_FOUND",
    `There is no conversation ${JSON.stringify(id)}. Make one with sp.conversations.create().`,
    { details: { conversationId: id } },
  );
}

function conversationExists(id: string, cause: unknown): SavepointError<"CONFLICT"> {
  return new SavepointError(
    "CONFLICT",
    `There is a conversation ${JSON.stringify(id)} already. Append to it, or replace it with save().`,
    { cause, details: { conversationId: id } },
  );
}

/** What a message says, without when it came. */
function contentOf({ json, refs }: Frame): string {
  return `${refs}\n${json.slice(json.indexOf(",") + 1)}`;
}

function timeOf({ json }: Frame): number {
  return Number(json.slice(1, json.indexOf(",")));
}

function describeAll(messages: readonly unknown[], timeOfMessage: (index: number) => number): EntryDraft<unknown>[] {
  return messages.map((message, index) => draftEntry(message, timeOfMessage(index)));
}

function titleOf(entries: readonly EntryDraft<unknown>[]): string | undefined {
  for (const { role, text } of entries) {
    const title = role === "user" ? toTitle(text) : undefined;
    if (title !== undefined) return title;
  }
  return undefined;
}

function messagePuts(id: string, number: number, entries: readonly EntryDraft<unknown>[]): Put[] {
  const title = titleOf(entries);
  return [
    ...(entries.length === 0 ? [] : [lastMessagePut(id, number, entries)]),
    ...(title === undefined ? [] : [firstTitlePut(id, number, title)]),
  ];
}

function lastMessagePut(id: string, number: number, entries: readonly EntryDraft<unknown>[]): Put {
  return { key: lastMessageTimeKey(id, number), value: String(entries.at(-1)?.timestamp) };
}

function itemsOf(number: number, first: number, encoded: EncodedMessages): Pick<Commit, "items" | "blobs"> {
  return { items: [{ tape: messageTape(number), first, items: encoded.frames }], blobs: blobsOf(encoded) };
}

function blobsOf({ blobs }: EncodedMessages): { hash: string; bytes: Uint8Array }[] {
  return [...blobs].map(([hash, bytes]) => ({ hash, bytes }));
}
