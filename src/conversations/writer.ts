/**
 * Writes conversations. An append is one commit without a read: the store numbers the new messages, so concurrent writers
 * lose nothing. All other changes read the conversation's record and replace it.
 */
import { isSavepointError, SavepointError } from "../errors.js";
import { coalesce, type Piece } from "../state/index.js";
import type { Commit, Frame, Put } from "../store/index.js";
import { freeGarbage, isConflictOn, type NumberSource } from "../sessions/index.js";
import { addToList, LruMap, retryOnConflict } from "../util/index.js";
import type { Context } from "../context.js";
import type { ConversationEntry } from "./conversation.js";
import { changePut, findRemovable, conversationPuts, planConversationRemoval, firstTitlePut } from "./commit.js";
import { type ConversationFields, toTitle } from "./fields.js";
import { readConversation, readMessageFrames, type StoredConversation } from "./reader.js";
import {
  agentHistoryId,
  conversationKey,
  type ConversationRecord,
  derivedTitleKey,
  lastMessageTimeKey,
  messageCounterKey,
  messageTape,
  piecesOf,
  sessionKey,
  splitPieces,
} from "../records/index.js";
import { draftEntry, encodeMessages, type EncodedMessages, assignEntryId, type EntryDraft } from "./message-item.js";
import { allocateConversationNumber } from "./moved-numbers.js";

/** Conversations whose numbers and agents are cached, so that an append needs no read. */
const MAX_CACHED = 10_000;
/** The most ranges of an edited conversation; beyond that, `replace` writes all of its messages again. */
const MAX_PIECES = 256;

/** What an append needs to know of a conversation. It never changes, unless the conversation is deleted. */
type AppendTarget = Pick<ConversationRecord, "number" | "agent">;

/** Creates, changes and deletes conversations of a store. */
export class ConversationWriter {
  readonly #context: Context;
  readonly #numbers: NumberSource;
  /** By the ids of conversations. A number is stale if the conversation was deleted; then an append conflicts. */
  readonly #cached = new LruMap<string, AppendTarget>(MAX_CACHED);
  readonly #reading = new Map<string, Promise<AppendTarget>>();

  constructor(context: Context, numbers: NumberSource) {
    this.#context = context;
    this.#numbers = numbers;
  }

  /**
   * Creates a conversation.
   *
   * @throws CONFLICT if the id is in use
   */
  async create(fields: ConversationFields, messages: readonly unknown[]): Promise<string> {
    const { registry, store } = this.#context;
    const now = this.#context.now();
    // The messages are the caller's objects: everything is read from them before the first await.
    const encoded = encodeMessages(messages, now, registry);
    const entries = draftEntries(messages, () => now);
    const number = await allocateConversationNumber(this.#context, this.#numbers, fields.agent);
    const id = fields.id ?? this.#context.newId({ number, seq: 0 });
    const place = { number, order: number, base: [], tapeStart: 0 };
    const record: ConversationRecord = { ...fields.record, ...place, agent: fields.agent, createdAt: now };
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
    this.#cached.set(id, { number, agent: fields.agent });
    return id;
  }

  /** Appends messages. They stay adjacent and in order, whatever other writers append. */
  async append(id: string, messages: readonly unknown[]): Promise<ConversationEntry<unknown>[]> {
    const now = this.#context.now();
    const encoded = encodeMessages(messages, now, this.#context.registry);
    const described = draftEntries(messages, () => now);
    const title = titleOf(described);
    if (described.length === 0) {
      await this.#require(id);
      return [];
    }
    for (;;) {
      const { number, agent } = this.#cached.get(id) ?? (await this.#readTarget(id));
      try {
        const { firsts } = await this.#context.store.commit({
          checks: [{ key: messageCounterKey(id, number), exists: true }],
          puts: [
            lastMessagePut(id, number, described),
            ...changePut(agent, id),
            ...(title === undefined ? [] : [{ ...firstTitlePut(id, number, title), ifAbsent: true }]),
          ],
          items: [{ tape: messageTape(number), counter: messageCounterKey(id, number), items: encoded.frames }],
          blobs: blobsOf(encoded),
        });
        const first = firsts[0] as number;
        return described.map((entry, index) => assignEntryId(entry, now, { number, seq: first + index }));
      } catch (error) {
        // If the conversation was deleted and created again, it has another number.
        this.#cached.delete(id);
        if (!isSavepointError(error, "CONFLICT") || !isConflictOn(error, messageCounterKey(id, number))) throw error;
      }
    }
  }

  /**
   * Reads the record of a conversation, once for all concurrent appends, which then continue in the order of their calls.
   */
  #readTarget(id: string): Promise<AppendTarget> {
    const pending = this.#reading.get(id);
    if (pending) return pending;
    const reading = this.#require(id)
      .then(({ record: { number, agent } }) => {
        this.#cached.set(id, { number, agent });
        return { number, agent };
      })
      .finally(() => this.#reading.delete(id));
    this.#reading.set(id, reading);
    return reading;
  }

  /**
   * Replaces the fields and messages of a conversation. Messages that it contains already are not written again.
   *
   * @param messages are not changed by the caller meanwhile
   * @returns `false` if the conversation was changed since it was read; then nothing was written
   */
  async replace(
    stored: StoredConversation,
    fields: ConversationFields,
    messages: readonly unknown[],
  ): Promise<boolean> {
    const { id, record, items } = stored;
    const { number } = record;
    const now = this.#context.now();
    const encoded = encodeMessages(messages, now, this.#context.registry);
    const places = await this.#placesByContent(piecesOf(record, items));
    const pieces: Piece[] = [];
    const times: number[] = [];
    const added: Frame[] = [];
    for (const frame of encoded.frames) {
      const place = places.get(contentOf(frame))?.shift();
      if (!place) added.push(frame);
      pieces.push(place?.piece ?? { tape: number, start: items + added.length - 1, count: 1 });
      times.push(place?.time ?? now);
    }
    const joined = coalesce(pieces);
    const rewrite = joined.length > MAX_PIECES;
    const written = rewrite ? encoded.frames : added;
    const end = items + written.length;
    const all = rewrite ? [{ tape: number, start: items, count: written.length }] : joined;
    // A loaded conversation shows the title of its first message as its own; saved back, that is not a title that was
    // set.
    const ownTitle = fields.record.title === stored.firstTitle ? undefined : fields.record.title;
    const next = { ...record, ...fields.record, title: ownTitle, ...splitPieces(all, number, end) };
    const entries = draftEntries(messages, (index) => (rewrite ? now : (times[index] as number)));
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
    if (done) this.#cached.delete(id);
    return done;
  }

  /**
   * Changes the record of a conversation: title, tags, metadata, archived.
   *
   * @param change may be called more than once
   */
  async change(id: string, change: (record: ConversationRecord) => ConversationRecord): Promise<void> {
    await retryOnConflict(async () => {
      const stored = await this.#require(id);
      await this.#context.store.commit({
        checks: [{ key: conversationKey(id), value: stored.value }],
        puts: conversationPuts(id, change(stored.record)),
      });
    });
  }

  /** Deletes a conversation; returns whether it existed. Checkpoints of its agent keep the messages that they need. */
  async delete(id: string): Promise<boolean> {
    return retryOnConflict(async () => {
      const found = await findRemovable(this.#context, id);
      if (!found) return false;
      const history = sessionKey(agentHistoryId(found.agent ?? ""));
      const [agent] = await this.#context.store.get([history]);
      const { deletes, puts } = planConversationRemoval(id, found, agent !== undefined);
      await this.#context.store.commit({
        checks: [
          found.check,
          // An agent that was created meanwhile may have a checkpoint with this conversation.
          agent ? { key: history, exists: true } : { key: history, value: undefined },
        ],
        deletes,
        puts,
      });
      this.#cached.delete(id);
      if (!agent) await freeGarbage(this.#context, found.number);
      return true;
    });
  }

  /** Clears the cache, because conversations were changed by an operation that does not update it. */
  forget(): void {
    this.#cached.clear();
  }

  /** The places of the messages in these ranges and when they were appended, by their content. */
  async #placesByContent(pieces: readonly Piece[]): Promise<Map<string, { piece: Piece; time: number }[]>> {
    const places = new Map<string, { piece: Piece; time: number }[]>();
    for (const { frame, place } of await readMessageFrames(this.#context.store, pieces)) {
      // An unreadable message is not reused: if it is in the new messages, it is written again.
      if ("unreadable" in frame) continue;
      const piece = { tape: place.number, start: place.seq, count: 1 };
      addToList(places, contentOf(frame), { piece, time: timeOf(frame) });
    }
    return places;
  }

  /** Commits if the conversation has not changed since it was read; `false` if it has, or a message was appended. */
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

  async #require(id: string): Promise<StoredConversation> {
    const stored = await readConversation(this.#context, id);
    if (!stored) throw conversationNotFound(id);
    return stored;
  }
}

/** The error for a conversation that does not exist. */
export function conversationNotFound(id: string): SavepointError<"CONVERSATION_NOT_FOUND"> {
  return new SavepointError(
    "CONVERSATION_NOT_FOUND",
    `There is no conversation ${JSON.stringify(id)}. Create it with sp.conversations.create().`,
    { details: { conversationId: id } },
  );
}

function conversationExists(id: string, cause: unknown): SavepointError<"CONFLICT"> {
  return new SavepointError(
    "CONFLICT",
    `Conversation ${JSON.stringify(id)} exists already. Append to it, or replace it with save().`,
    { cause, details: { conversationId: id } },
  );
}

/** The content of an item without the time of the append, which comes first. */
function contentOf({ json, refs }: Frame): string {
  return `${refs}\n${json.slice(json.indexOf(",") + 1)}`;
}

function timeOf({ json }: Frame): number {
  return Number(json.slice(1, json.indexOf(",")));
}

function draftEntries(messages: readonly unknown[], timeOfMessage: (index: number) => number): EntryDraft<unknown>[] {
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
