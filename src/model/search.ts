/**
 * Finding what was said. The index names documents that may contain a text, the newest first; what they say is then read
 * from where it is stored, so that what is found is there, and is what was looked for.
 */
import { isSavepointError, SavepointError } from "../errors.js";
import { DOCUMENTS, type TextSource } from "../store/text-index.js";
import type { Context } from "./context.js";
import type { ConversationEntry, ConversationInfo } from "./conversation.js";
import { readable, readMessages, type StoredConversation, toConversationInfo } from "./conversation-reader.js";
import { piecesOf, slicePieces } from "./conversation-records.js";
import { fold, isWholeWord, snippetOf } from "./fold.js";
import { conversationOfKey } from "./keys.js";
import type { Role } from "./message.js";
import { type Scope, SearchIndex, titleSource } from "./search-index.js";
import { readSessionMessages } from "./session-messages.js";
import { SessionReader } from "./session-reader.js";

export interface SearchOptions {
  /** Only in conversations, and sessions, of this agent. */
  readonly agent?: string;
  /** Only in messages of this role. */
  readonly role?: Role;
  /** Only in conversations that have all of these tags. */
  readonly tags?: readonly string[];
  /** Only in archived conversations, or only in those that are not. */
  readonly archived?: boolean;
  /** Only in messages from this time on. */
  readonly since?: number | Date;
  /**
   * At most this many hits.
   * @default 20
   */
  readonly limit?: number;
}

/** A conversation in which something was found. */
export interface ConversationHit {
  readonly conversationId: string;
  readonly agent: string | undefined;
  readonly title: string | undefined;
  /** The message it was found in; `undefined` where it was found in the title. */
  readonly messageId: string | undefined;
  readonly role: Role | undefined;
  readonly timestamp: number;
  /** The text around the place. */
  readonly snippet: string;
}

/** A conversation, or a session, in which something was found. */
export interface SearchHit {
  readonly source: "conversation" | "session";
  /** Of the conversation or the session. */
  readonly id: string;
  readonly agent: string | undefined;
  /** The message's own id, or that of its place in a conversation; `undefined` where it has none, or it is a title. */
  readonly messageId: string | undefined;
  /** In a session: JSON pointer to the message in the newest state of the branch. */
  readonly path: string | undefined;
  readonly branch: string | undefined;
  readonly role: Role | undefined;
  readonly timestamp: number | undefined;
  readonly snippet: string;
}

/** Documents that are asked for at once: few at first, because most searches are content with those. */
const FIRST_PAGE = 64;
const PAGE = 1024;

/** A hit, and how good it is. */
interface Ranked {
  readonly hit: SearchHit;
  readonly title: string | undefined;
  /** Whole words come before parts of words. */
  readonly wholeWord: boolean;
}

/** What is being looked for. */
interface Query extends SearchOptions {
  readonly folded: string;
  readonly from: number;
  readonly limit: number;
}

/** Where a document is. */
interface Place {
  readonly source: TextSource;
  readonly ordinal: number;
}

export class Search {
  readonly #context: Context;
  readonly #index: SearchIndex;

  constructor(context: Context) {
    this.#context = context;
    this.#index = new SearchIndex(context);
  }

  async conversations(text: string, options: SearchOptions): Promise<ConversationHit[]> {
    const found = await this.#search(text, options, "conversations");
    return found.map(({ hit, title }) => {
      const { id, agent, messageId, role, timestamp = 0, snippet } = hit;
      return { conversationId: id, agent, title, messageId, role, timestamp, snippet };
    });
  }

  async all(text: string, options: SearchOptions): Promise<SearchHit[]> {
    return (await this.#search(text, options, "all")).map(({ hit }) => hit);
  }

  async #search(text: string, options: SearchOptions, scope: Scope): Promise<Ranked[]> {
    const query = takeQuery(text, options);
    if (query.folded === "" || query.limit <= 0) return [];
    try {
      await this.#index.catchUp(scope);
      return await this.#find(query, scope);
    } catch (error) {
      if (!isSavepointError(error, "DAMAGED")) throw error;
      // The index can be made again from what is stored. If that is what is damaged, it is told again.
      this.#context.events.emit("backgroundFailure", { message: "the search index is made anew", error });
      await this.#index.texts.clear();
      await this.#index.catchUp(scope);
      return this.#find(query, scope);
    }
  }

  /** The best hit of each conversation and session, until there are enough or no more. */
  async #find(query: Query, scope: Scope): Promise<Ranked[]> {
    const hits = new Map<string, Ranked>();
    let below = Number.MAX_SAFE_INTEGER;
    for (let limit = FIRST_PAGE; hits.size < query.limit; limit = PAGE) {
      const numbers = await this.#index.texts.find(query.folded, { below, limit });
      const places = await this.#placesOf(numbers);
      await this.#addHits(places, query, scope, hits);
      const last = places.at(-1);
      if (numbers.length < limit) break;
      below = numbers.at(-1) as number;
      // The rest of what has a hit already need not be looked at.
      if (last && hits.has(ownerOf(last.source.name))) below = last.source.id * DOCUMENTS;
    }
    return [...hits.values()].sort(byRank).slice(0, query.limit);
  }

  async #placesOf(numbers: readonly number[]): Promise<Place[]> {
    const ids = [...new Set(numbers.map((number) => Math.floor(number / DOCUMENTS)))];
    const sources = new Map((await this.#index.texts.sourcesById(ids)).map((source, index) => [ids[index], source]));
    return numbers.flatMap((number) => {
      const source = sources.get(Math.floor(number / DOCUMENTS));
      return source ? [{ source, ordinal: number % DOCUMENTS }] : [];
    });
  }

  async #addHits(places: readonly Place[], query: Query, scope: Scope, hits: Map<string, Ranked>): Promise<void> {
    const wanted = places.filter(({ source }) => !hits.has(ownerOf(source.name)));
    const ids = new Set(
      wanted.filter(({ source }) => isConversation(source.name)).map(({ source }) => idOf(source.name)),
    );
    const conversations = new Map<string, StoredConversation>();
    for (const stored of await readable(this.#context, [...ids])) conversations.set(stored.id, stored);
    for (const place of wanted) {
      const { name } = place.source;
      const owner = ownerOf(name);
      if (hits.size >= query.limit) return;
      if (hits.has(owner)) continue;
      const stored = conversations.get(idOf(name));
      if (isConversation(name)) {
        const hit = stored && (await this.#conversationHit(stored, place, query));
        if (hit) hits.set(owner, hit);
      } else if (scope === "all") {
        const hit = await this.#sessionHit(place, query).catch((error: unknown) => {
          // It is told by its event; others may have a hit.
          if (isSavepointError(error, "DAMAGED")) return undefined;
          throw error;
        });
        if (hit) hits.set(owner, hit);
      }
    }
  }

  async #conversationHit(
    stored: StoredConversation,
    { source, ordinal }: Place,
    query: Query,
  ): Promise<Ranked | undefined> {
    const info = toConversationInfo(stored, this.#context);
    const { agent, tags = [], archived, role, from } = query;
    if (agent !== undefined && info.agent !== agent) return undefined;
    if (archived !== undefined && info.archived !== archived) return undefined;
    if (!tags.every((tag) => info.tags.includes(tag))) return undefined;
    const ofTitle = source.name === titleSource(stored.id);
    const entry = ofTitle ? titleEntry(info) : await this.#entry(stored, ordinal);
    if (!entry || (role !== undefined && entry.role !== role) || entry.timestamp < from) return undefined;
    const snippet = snippetOf(entry.text, query.folded);
    if (snippet === undefined) return undefined;
    const { id, agent: owner, title } = info;
    const found = { messageId: entry.id, role: entry.role, timestamp: entry.timestamp, snippet };
    const hit = { source: "conversation" as const, id, agent: owner, path: undefined, branch: undefined, ...found };
    return { hit, title, wholeWord: isWholeWord(entry.text, query.folded) };
  }

  async #entry(stored: StoredConversation, index: number): Promise<ConversationEntry<unknown> | undefined> {
    const pieces = slicePieces(piecesOf(stored.record, stored.items), index, index + 1);
    const [entry] = await readMessages(this.#context, pieces);
    return entry && !("unreadable" in entry) ? entry : undefined;
  }

  async #sessionHit({ source, ordinal }: Place, query: Query): Promise<Ranked | undefined> {
    const [, id = "", branch = ""] = source.name.split("\t");
    const session = await new SessionReader(this.#context, id).session();
    const agent = session?.record.agent;
    // Tags and the archive are of conversations.
    const { tags = [], archived, role, from } = query;
    if (!session || tags.length > 0 || archived !== undefined) return undefined;
    if (query.agent !== undefined && agent !== query.agent) return undefined;
    const message = (await readSessionMessages(this.#context, id, branch))?.[ordinal];
    if (!message || (role !== undefined && message.role !== role)) return undefined;
    if (from > Number.NEGATIVE_INFINITY && (message.timestamp ?? 0) < from) return undefined;
    const snippet = snippetOf(message.text, query.folded);
    if (snippet === undefined) return undefined;
    const { id: messageId, path, timestamp } = message;
    const hit = {
      source: "session" as const,
      id,
      agent,
      messageId,
      path,
      branch,
      role: message.role,
      timestamp,
      snippet,
    };
    return { hit, title: undefined, wholeWord: isWholeWord(message.text, query.folded) };
  }
}

/** The title as something that was said when the last message came. */
function titleEntry({ title = "", lastMessageAt }: ConversationInfo): {
  id: undefined;
  role: undefined;
  text: string;
  timestamp: number;
} {
  return { id: undefined, role: undefined, text: title, timestamp: lastMessageAt };
}

function takeQuery(text: string, options: SearchOptions): Query {
  if (typeof text !== "string") {
    throw new SavepointError("INVALID_ARGUMENT", `What is searched for is a text, not of type ${typeof text}.`);
  }
  const { since, limit = 20 } = options;
  const from = since === undefined ? Number.NEGATIVE_INFINITY : Number(since);
  if (Number.isNaN(from))
    throw new SavepointError("INVALID_ARGUMENT", "`since` is no time. Give milliseconds or a Date.");
  return { ...options, folded: fold(text), from, limit };
}

/** The best first: whole words, then what was said last. */
function byRank(a: Ranked, b: Ranked): number {
  if (a.wholeWord !== b.wholeWord) return a.wholeWord ? -1 : 1;
  return (b.hit.timestamp ?? 0) - (a.hit.timestamp ?? 0);
}

function isConversation(name: string): boolean {
  return name.startsWith("c\t");
}

function idOf(name: string): string {
  return conversationOfKey(name);
}

/** What has one hit at most: a conversation with its title, or a session with its branches. */
function ownerOf(name: string): string {
  return name.split("\t", 2).join("\t");
}
