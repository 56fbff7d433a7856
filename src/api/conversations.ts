/** The conversations of a store. */
import { isSavepointError, SavepointError } from "../errors.js";
import { valueToShadow, shadowToValue } from "../state/index.js";
import { type RecordResult, type KeyRange, scanPages } from "../store/index.js";
import {
  validateFields,
  validatePlainObject,
  createListing,
  invalidArgument,
  type Listing,
  limitEntries,
  parseTimestamp,
} from "../util/index.js";
import type { AgentCheckpoints } from "../agents/index.js";
import type { Context } from "../context.js";
import {
  type Conversation,
  type ConversationEntry,
  type ConversationInfo,
  type ConversationListOptions,
  conversationNotFound,
  type ConversationOptions,
  type ConversationWriter,
  decodeConversationListing,
  loadConversation,
  type LoadConversationOptions,
  loadMessages,
  piecesOfSnapshot,
  readIntactConversations,
  readConversation,
  readConversations,
  parseConversation,
  type ConversationFields,
  parseTags,
  parseTitle,
  toConversationInfo,
  toSnapshotInfo,
} from "../conversations/index.js";
import {
  ALL_CONVERSATION_NUMBERS,
  checkId,
  conversationsOf,
  countPieces,
  encodeMetadata,
  piecesOf,
} from "../records/index.js";
import { findCheckpoint } from "../sessions/index.js";
import type { Message } from "../messages/index.js";
import type { ConversationHit, Search, SearchOptions } from "../search/index.js";

const CHANGES: ReadonlySet<string> = new Set(["title", "tags", "archived", "metadata"]);

/** What the conversations need of the Savepoint they belong to. */
export interface ConversationHost {
  /** @throws CLOSED */
  open(): Context;
  readonly writer: ConversationWriter;
  readonly search: Search;
  readonly checkpoints: AgentCheckpoints;
  /** Takes a checkpoint of the agent first, where its policy says so. */
  beforeDelete(agent: string): Promise<void>;
}

/** A conversation to save as a whole. */
export interface WholeConversation extends ConversationOptions<unknown> {
  readonly id: string;
  readonly messages: readonly unknown[];
}

/** What can be changed about a conversation. What is not said stays as it is. */
export type ConversationChange = Pick<ConversationOptions, "title" | "tags" | "archived" | "metadata">;

/**
 * The conversations of a store.
 *
 * @example
 * const { id } = await sp.conversations.create({ agent: "support" });
 * await sp.conversations.append(id, [message.user("Where is my order?")]);
 * const [hit] = await sp.conversations.search("order");
 */
export class Conversations {
  readonly #host: ConversationHost;

  /** Use `sp.conversations`. */
  constructor(host: ConversationHost) {
    this.#host = host;
  }

  /** Makes a conversation. `CONFLICT` if there is one with that id. */
  async create(options: ConversationOptions<unknown> = {}): Promise<ConversationInfo> {
    const context = this.#host.open();
    const taken = parseConversation(options, context);
    if (options.messages !== undefined && !Array.isArray(options.messages))
      throw notAnArray("create({ messages: [...] })");
    const id = await this.#host.writer.create(taken, options.messages ?? []);
    return this.#info(id);
  }

  /**
   * Saves a whole conversation: makes it if there is none with that id, and otherwise puts these messages in the place of
   * those that are there, also of those that others have appended since you loaded it; `expectedMessages` refuses that.
   * Only messages that are new are written. What `load` gave can be given back.
   *
   * @param options.expectedMessages how many messages it must have, as it was loaded; with any other number it is `CONFLICT`
   */
  async save(
    conversation: WholeConversation,
    options: { readonly expectedMessages?: number } = {},
  ): Promise<ConversationInfo> {
    const context = this.#host.open();
    const taken = parseConversation(conversation, context);
    // To leave them out by mistake would throw them all away.
    if (!Array.isArray(conversation.messages)) throw notAnArray("save({ id, messages: [...] })");
    const { first = 0, holes = [] } = conversation as Partial<Conversation<unknown>>;
    if (first > 0 || holes.length > 0) throw onlyAPart(conversation.id);
    // The objects are the caller's own, and may change before they are saved.
    const messages = conversation.messages.map((message: unknown) =>
      shadowToValue(valueToShadow(message, context.registry), context.registry),
    );
    const { id } = conversation;
    const { expectedMessages } = options;
    for (;;) {
      const stored = await readConversation(context, checkId(id, "conversation id"));
      const count = stored ? countPieces(piecesOf(stored.record, stored.items)) : 0;
      if (expectedMessages !== undefined && count !== expectedMessages) throw otherCount(id, count, expectedMessages);
      if (!stored) {
        if (await this.#tryToCreate(taken, messages)) return this.#info(id);
        continue;
      }
      const { agent } = stored.record;
      if (taken.agent !== undefined && taken.agent !== agent) throw wrongAgent(id, agent, taken.agent);
      if (await this.#host.writer.replace(stored, taken, messages)) return this.#info(id);
    }
  }

  /**
   * Adds messages at the end, all or none, side by side. Any number of writers may do so at once: nothing is lost. Costs
   * what is added, whatever the length of the conversation. `CONVERSATION_NOT_FOUND` if there is none.
   *
   * @param messages those of `message`, or of any SDK: they are stored as they are
   */
  async append<M = Message>(id: string, messages: readonly M[]): Promise<ConversationEntry<M>[]> {
    this.#host.open();
    if (!Array.isArray(messages)) throw notAnArray("append(id, [message])");
    const entries = await this.#host.writer.append(checkId(id, "conversation id"), messages);
    return entries as ConversationEntry<M>[];
  }

  /** A conversation with its messages, or a page of them from the end; `undefined` if there is none. */
  async load<M = Message>(id: string, options: LoadConversationOptions = {}): Promise<Conversation<M> | undefined> {
    const context = this.#host.open();
    checkId(id, "conversation id");
    const loaded =
      options.at === undefined ? loadConversation(context, id, options) : this.#loadAt(id, options.at, options);
    return (await loaded) as Conversation<M> | undefined;
  }

  /** The conversations without their messages, newest first. */
  list(options: ConversationListOptions = {}): Listing<ConversationInfo> {
    const { agent, tag, archived, since, limit = Number.POSITIVE_INFINITY } = options;
    const from = since === undefined ? Number.NEGATIVE_INFINITY : parseTimestamp(since, "`since`");
    const range = agent === undefined ? ALL_CONVERSATION_NUMBERS : conversationsOf(checkId(agent, "agent id"));
    const wanted = (info: ConversationInfo): boolean =>
      (tag === undefined || info.tags.includes(tag)) &&
      (archived === undefined || info.archived === archived) &&
      info.lastMessageAt >= from;
    return createListing(() => limitEntries(this.#walk(range, wanted), limit));
  }

  /** Gives a conversation another title, or with `undefined` the one that its first message gives it. */
  async rename(id: string, title: string | undefined): Promise<ConversationInfo> {
    return this.update(id, { title });
  }

  /** Gives a conversation these tags, and no others. */
  async tag(id: string, tags: readonly string[]): Promise<ConversationInfo> {
    return this.update(id, { tags });
  }

  /** Archives a conversation, or takes it out of the archive again. */
  async archive(id: string, archived = true): Promise<ConversationInfo> {
    return this.update(id, { archived });
  }

  /** Changes what is said about a conversation; its messages stay. `CONVERSATION_NOT_FOUND` if there is none. */
  async update(id: string, change: ConversationChange): Promise<ConversationInfo> {
    const { registry } = this.#host.open();
    validateFields(change, "What is changed about a conversation", CHANGES);
    validatePlainObject(change.metadata, "The metadata of a conversation");
    const taken = {
      ...("title" in change && { title: parseTitle(change.title) }),
      ...(change.tags && { tags: parseTags(change.tags) }),
      ...(change.archived !== undefined && { archived: Boolean(change.archived) }),
      ...("metadata" in change && { metadata: encodeMetadata(change.metadata, registry) }),
    };
    await this.#host.writer.change(checkId(id, "conversation id"), (record) => ({ ...record, ...taken }));
    return this.#info(id);
  }

  /** Deletes a conversation. Checkpoints of its agent still have it. Returns whether there was one. */
  async delete(id: string): Promise<boolean> {
    const context = this.#host.open();
    const [stored] = await readConversations(context, [checkId(id, "conversation id")]);
    const agent = stored && !("unreadable" in stored) ? stored.record.agent : undefined;
    if (agent !== undefined) await this.#host.beforeDelete(agent);
    return this.#host.writer.delete(id);
  }

  /**
   * Finds conversations by what is said in them or what they are called: any part of a text, in any case, taken
   * literally. One hit per conversation, the best first.
   */
  async search(text: string, options: SearchOptions = {}): Promise<ConversationHit[]> {
    this.#host.open();
    return this.#host.search.conversations(text, options);
  }

  /** `false` where somebody else has made it first. */
  async #tryToCreate(taken: ConversationFields, messages: readonly unknown[]): Promise<boolean> {
    try {
      await this.#host.writer.create(taken, messages);
      return true;
    } catch (error) {
      if (isSavepointError(error, "CONFLICT")) return false;
      throw error;
    }
  }

  /** A conversation as a checkpoint of its agent has it. */
  async #loadAt(id: string, at: string, options: LoadConversationOptions): Promise<Conversation<unknown> | undefined> {
    const context = this.#host.open();
    const found = await findCheckpoint(context, at);
    if (!found || found.agent === undefined) throw notOfAnAgent(at);
    const entered = await this.#host.checkpoints.findConversation(found.agent, found.number, found.row, id);
    if (!entered) return undefined;
    const messages = await loadMessages(context, id, piecesOfSnapshot(entered), options, true);
    return messages && { ...toSnapshotInfo(id, entered, context), ...messages };
  }

  async *#walk(range: KeyRange, wanted: (info: ConversationInfo) => boolean): AsyncGenerator<ConversationInfo> {
    const context = this.#host.open();
    for await (const page of scanPages(context.store, range, true)) {
      for (const stored of await readIntactConversations(context, conversationIdsOf(page))) {
        const info = toConversationInfo(stored, context);
        if (wanted(info)) yield info;
      }
    }
  }

  async #info(id: string): Promise<ConversationInfo> {
    const context = this.#host.open();
    const stored = await readConversation(context, id);
    if (!stored) throw conversationNotFound(id);
    return toConversationInfo(stored, context);
  }
}

/** The ids in the records of a list. */
export function conversationIdsOf(page: readonly RecordResult[]): string[] {
  return page.flatMap((record) => ("value" in record ? [decodeConversationListing(record.value).id] : []));
}

function notOfAnAgent(id: string): SavepointError<"CHECKPOINT_NOT_FOUND"> {
  return new SavepointError(
    "CHECKPOINT_NOT_FOUND",
    `There is no checkpoint ${JSON.stringify(id)} of an agent. sp.checkpoints.list({ of: "agent" }) names those there are.`,
  );
}

function onlyAPart(id: string): SavepointError<"INVALID_ARGUMENT"> {
  return invalidArgument(
    `What is to be saved of conversation ${JSON.stringify(id)} is a part of it: a page, or what is left of a damaged one. The rest would be gone. Give the messages alone if that is meant: save({ id, messages }).`,
  );
}

function otherCount(id: string, count: number, expected: number): SavepointError<"CONFLICT"> {
  return new SavepointError(
    "CONFLICT",
    `Conversation ${JSON.stringify(id)} was expected to have ${expected} messages, and has ${count}. Load it and try again.`,
    { details: { conversationId: id, messages: count, expectedMessages: expected } },
  );
}

function wrongAgent(id: string, agent: string | undefined, given: string): SavepointError {
  const owner = agent === undefined ? "no agent" : `agent ${JSON.stringify(agent)}`;
  return new SavepointError(
    "AGENT_MISMATCH",
    `Conversation ${JSON.stringify(id)} belongs to ${owner}, not ${JSON.stringify(given)}. Save it under another id.`,
  );
}

function notAnArray(call: string): SavepointError {
  return invalidArgument(`Messages are given as an array: ${call}.`);
}
