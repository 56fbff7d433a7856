/** `sp.conversations`: the conversations of agents and their messages. */
import { SavepointError } from "../errors.js";
import {
  type Conversation,
  type ConversationEntry,
  type ConversationInfo,
  type ConversationListOptions,
  conversationNotFound,
  type ConversationOptions,
  decodeConversationListing,
  loadConversation,
  type LoadConversationOptions,
  loadMessages,
  parseConversation,
  parseTags,
  parseTitle,
  piecesOfSnapshot,
  readConversation,
  readConversations,
  readIntactConversations,
  toConversationInfo,
  toSnapshotInfo,
} from "../conversations/index.js";
import type { Message } from "../messages/index.js";
import {
  ALL_CONVERSATION_NUMBERS,
  checkId,
  conversationsOf,
  countPieces,
  encodeMetadata,
  piecesOf,
} from "../records/index.js";
import type { ConversationHit, SearchOptions } from "../search/index.js";
import { findCheckpoint } from "../sessions/index.js";
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
  unlessConflict,
} from "../util/index.js";
import type { AutoCheckpoints } from "./auto-checkpoints.js";
import type { Services } from "./services.js";

const UPDATE_FIELDS: ReadonlySet<string> = new Set(["title", "tags", "archived", "metadata"]);

/** A conversation with all its messages, to save as a whole. */
export interface WholeConversation extends ConversationOptions<unknown> {
  readonly id: string;
  readonly messages: readonly unknown[];
}

/** The fields of a conversation that can be changed. Fields that are not given keep their values. */
export type ConversationChange = Pick<ConversationOptions, "title" | "tags" | "archived" | "metadata">;

/**
 * The conversations of a store: ordered messages with a title, tags and an archive flag.
 *
 * @example
 * const { id } = await sp.conversations.create({ agent: "support" });
 * await sp.conversations.append(id, [message.user("Where is my order?")]);
 * const [hit] = await sp.conversations.search("order");
 */
export class Conversations {
  readonly #services: Services;
  readonly #autoCheckpoints: AutoCheckpoints;

  /** Use `sp.conversations`. */
  constructor(services: Services, autoCheckpoints: AutoCheckpoints) {
    this.#services = services;
    this.#autoCheckpoints = autoCheckpoints;
  }

  /** Creates a conversation, in one commit. @throws `CONFLICT` if there is one with this id */
  async create(options: ConversationOptions<unknown> = {}): Promise<ConversationInfo> {
    const context = this.#services.open();
    const fields = this.#services.scope.withAgent(parseConversation(options, context));
    if (options.messages !== undefined && !Array.isArray(options.messages))
      throw notAnArray("create({ messages: [...] })");
    const id = await this.#services.conversationWriter.create(fields, options.messages ?? []);
    return this.#info(id);
  }

  /**
   * Saves a complete conversation: creates it, or replaces its messages and fields. Accepts what {@link load} returned.
   * Messages that are stored already are normally not written again. Messages that other writers have appended since you loaded the
   * conversation are removed; pass `expectedMessages` to prevent that, or use {@link append}.
   *
   * @param options.expectedMessages how many messages the stored conversation must have; any other number is a `CONFLICT`
   * @throws `INVALID_ARGUMENT` if only a page of the conversation was loaded, or if damaged messages were left out when it was
   *   loaded: saving it would delete the missing messages
   */
  async save(
    conversation: WholeConversation,
    options: { readonly expectedMessages?: number } = {},
  ): Promise<ConversationInfo> {
    const context = this.#services.open();
    const fields = this.#services.scope.withAgent(parseConversation(conversation, context));
    // Without this check, forgetting the messages would delete them all.
    if (!Array.isArray(conversation.messages)) throw notAnArray("save({ id, messages: [...] })");
    // A page of a conversation would replace all of it. The caller may have changed `messages`, but not `entries`.
    const { entries, messageCount = 0, holes = [] } = conversation as Partial<Conversation<unknown>>;
    const isPage = entries !== undefined && entries.length < messageCount;
    if (isPage || holes.length > 0) throw incompleteConversation(conversation.id);
    // Copies: the caller may change its objects before they are saved.
    const messages = conversation.messages.map((message: unknown) =>
      shadowToValue(valueToShadow(message, context.registry), context.registry),
    );
    const { id } = conversation;
    const { expectedMessages } = options;
    const { conversationWriter } = this.#services;
    for (;;) {
      const stored = await readConversation(context, checkId(id, "conversation id"));
      const count = stored ? countPieces(piecesOf(stored.record, stored.items)) : 0;
      if (expectedMessages !== undefined && count !== expectedMessages)
        throw messageCountConflict(id, count, expectedMessages);
      if (!stored) {
        const created = await unlessConflict(conversationWriter.create(fields, messages));
        if (created !== undefined) return this.#info(id);
        // Another writer has created it first.
        continue;
      }
      const { agent } = stored.record;
      if (fields.agent !== undefined && fields.agent !== agent) throw wrongAgent(id, agent, fields.agent);
      if (await conversationWriter.replace(stored, fields, messages)) return this.#info(id);
    }
  }

  /**
   * Appends messages, all or none, next to each other. Any number of writers may append at the same time; no message is lost.
   * Costs O(messages), whatever the length of the conversation.
   *
   * @param messages built by `message`, or of any SDK: they are stored as they are
   * @throws `CONVERSATION_NOT_FOUND`
   */
  async append<M = Message>(id: string, messages: readonly M[]): Promise<ConversationEntry<M>[]> {
    this.#services.open();
    if (!Array.isArray(messages)) throw notAnArray("append(id, [message])");
    const entries = await this.#services.conversationWriter.append(checkId(id, "conversation id"), messages);
    return entries as ConversationEntry<M>[];
  }

  /** A conversation with its messages, or with a page of them from the end; `undefined` if there is none. */
  async load<M = Message>(id: string, options: LoadConversationOptions = {}): Promise<Conversation<M> | undefined> {
    const context = this.#services.open();
    checkId(id, "conversation id");
    const loaded =
      options.at === undefined ? loadConversation(context, id, options) : this.#loadAt(id, options.at, options);
    return (await loaded) as Conversation<M> | undefined;
  }

  /**
   * The conversations without their messages, most recently created first. If several processes create conversations, the order
   * is approximate. Reads page by page.
   */
  list(options: ConversationListOptions = {}): Listing<ConversationInfo> {
    const { scope } = this.#services;
    const { agent = scope.agent, tag, archived, since, limit = Number.POSITIVE_INFINITY } = options;
    const from = since === undefined ? Number.NEGATIVE_INFINITY : parseTimestamp(since, "`since`");
    const range = agent === undefined ? ALL_CONVERSATION_NUMBERS : conversationsOf(checkId(agent, "agent id"));
    const matches = (info: ConversationInfo): boolean =>
      (tag === undefined || info.tags.includes(tag)) &&
      (archived === undefined || info.archived === archived) &&
      info.lastMessageAt >= from;
    return createListing(() => limitEntries(this.#walk(range, matches), limit));
  }

  /** Sets the title of a conversation; `undefined` derives it from the first message of a user. */
  async rename(id: string, title: string | undefined): Promise<ConversationInfo> {
    return this.update(id, { title });
  }

  /** Replaces the tags of a conversation. */
  async tag(id: string, tags: readonly string[]): Promise<ConversationInfo> {
    return this.update(id, { tags });
  }

  /** Archives a conversation, or with `false` unarchives it. */
  async archive(id: string, archived = true): Promise<ConversationInfo> {
    return this.update(id, { archived });
  }

  /** Changes fields of a conversation, not its messages. @throws `CONVERSATION_NOT_FOUND` */
  async update(id: string, change: ConversationChange): Promise<ConversationInfo> {
    const { registry } = this.#services.open();
    validateFields(change, "A change of a conversation", UPDATE_FIELDS);
    validatePlainObject(change.metadata, "The metadata of a conversation");
    const fields = {
      ...("title" in change && { title: parseTitle(change.title) }),
      ...(change.tags && { tags: parseTags(change.tags) }),
      ...(change.archived !== undefined && { archived: Boolean(change.archived) }),
      ...("metadata" in change && { metadata: encodeMetadata(change.metadata, registry) }),
    };
    const { conversationWriter } = this.#services;
    await conversationWriter.change(checkId(id, "conversation id"), (record) => ({ ...record, ...fields }));
    return this.#info(id);
  }

  /**
   * Deletes a conversation. Existing checkpoints of its agent still contain it and can restore it.
   *
   * @returns `false` if there was none with this id
   */
  async delete(id: string): Promise<boolean> {
    const context = this.#services.open();
    const [stored] = await readConversations(context, [checkId(id, "conversation id")]);
    const agent = stored && !("unreadable" in stored) ? stored.record.agent : undefined;
    if (agent !== undefined) await this.#autoCheckpoints.beforeOperation(agent, "delete");
    return this.#services.search.withoutTexts({ kind: "conversation", id }, () =>
      this.#services.conversationWriter.delete(id),
    );
  }

  /**
   * Searches the messages and titles of conversations. Finds the given text anywhere in a message or title, ignoring case.
   * Wildcards are not supported. One hit per conversation, the best first.
   *
   * Use this to search only conversations, and `sp.search()` to search the newest states of sessions too.
   */
  async search(text: string, options: SearchOptions = {}): Promise<ConversationHit[]> {
    this.#services.open();
    return this.#services.search.conversations(text, options);
  }

  /** A conversation as it was in a checkpoint of its agent. */
  async #loadAt(id: string, at: string, options: LoadConversationOptions): Promise<Conversation<unknown> | undefined> {
    const context = this.#services.open();
    const found = await findCheckpoint(context, at);
    if (!found || found.agent === undefined) throw agentCheckpointNotFound(at);
    const { agentCheckpoints } = this.#services;
    const snapshot = await agentCheckpoints.findConversation(found.agent, found.number, found.row, id);
    if (!snapshot) return undefined;
    const messages = await loadMessages(context, id, piecesOfSnapshot(snapshot), options, true);
    return messages && { ...toSnapshotInfo(id, snapshot, context), ...messages };
  }

  async *#walk(range: KeyRange, matches: (info: ConversationInfo) => boolean): AsyncGenerator<ConversationInfo> {
    const context = this.#services.open();
    for await (const page of scanPages(context.store, range, true)) {
      for (const stored of await readIntactConversations(context, conversationIdsOf(page))) {
        const info = toConversationInfo(stored, context);
        if (matches(info)) yield info;
      }
    }
  }

  async #info(id: string): Promise<ConversationInfo> {
    const context = this.#services.open();
    const stored = await readConversation(context, id);
    if (!stored) throw conversationNotFound(id);
    return toConversationInfo(stored, context);
  }
}

/** The conversation ids in a page of a conversation list. Damaged entries are left out. */
export function conversationIdsOf(page: readonly RecordResult[]): string[] {
  return page.flatMap((record) => ("value" in record ? [decodeConversationListing(record.value).id] : []));
}

function agentCheckpointNotFound(id: string): SavepointError<"CHECKPOINT_NOT_FOUND"> {
  return new SavepointError(
    "CHECKPOINT_NOT_FOUND",
    `There is no agent checkpoint ${JSON.stringify(id)}. sp.checkpoints.list({ of: "agent" }) lists all of them.`,
  );
}

function incompleteConversation(id: string): SavepointError<"INVALID_ARGUMENT"> {
  return invalidArgument(
    `Conversation ${JSON.stringify(id)} was loaded incompletely (only a page of it, or with \`partial: true\` without its damaged messages) and cannot be saved: the other messages would be lost. To remove them, pass the messages alone: save({ id, messages }).`,
  );
}

function messageCountConflict(id: string, count: number, expected: number): SavepointError<"CONFLICT"> {
  return new SavepointError(
    "CONFLICT",
    `Conversation ${JSON.stringify(id)} has ${count} messages, expected ${expected}. Load it and try again.`,
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
  return invalidArgument(`Messages must be an array: ${call}.`);
}
