/**
 * Finding what was said. The index names documents that may contain a text, the newest first; what they say is then read
 * from where it is stored, so that what is found is there, and is what was looked for.
 */
import { isSavepointError } from "../errors.js";
import type { Piece } from "../state/index.js";
import { DOCUMENTS_PER_SOURCE, type TextSource } from "../store/index.js";
import { validateCount, validateFields, invalidArgument, parseTimestamp } from "../util/index.js";
import type { Context } from "../context.js";
import { readMessages } from "../conversations/index.js";
import {
  conversationKey,
  conversationOfKey,
  type ConversationRecord,
  countPieces,
  decodeConversation,
  derivedTitleKey,
  lastMessageTimeKey,
  slicePieces,
} from "../records/index.js";
import { fold, type TextMatch, findMatch } from "./text-match.js";
import type { Role } from "../messages/index.js";
import { noteOf, type SearchScope, SearchIndex, titleOfNote, titleSource } from "./search-index.js";
import { readSessionMessages } from "./session-messages.js";
import { SessionReader } from "../sessions/index.js";

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
   * @default 10
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
const FIRST_PAGE = 32;
const PAGE = 512;
/** Places of a conversation that are read at once, until there is a hit. */
const SLICES = [
  [0, 1],
  [1, 5],
  [5, 25],
  [25, Number.POSITIVE_INFINITY],
] as const;
/** Conversations that are looked at together, even where fewer hits are missing. */
const MIN_AT_ONCE = 4;

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

/** A conversation in which there may be a hit. */
interface FoundConversation {
  readonly id: string;
  readonly record: ConversationRecord;
}

/** What a message says; or a title, which has no id, no role and no time. */
interface Saying {
  readonly id: string | undefined;
  readonly role: Role | undefined;
  readonly timestamp: number | undefined;
  readonly text: string;
}

/** Where something was found in a conversation. */
interface FoundSaying extends Omit<Saying, "id" | "text"> {
  readonly conversation: FoundConversation;
  readonly messageId: string | undefined;
  readonly match: TextMatch;
}

interface NamedConversation {
  readonly title: string | undefined;
  readonly lastMessageAt: number;
}

/** Where a document is. */
interface Place {
  readonly source: TextSource;
  /** What it belongs to, and what has one hit at most. */
  readonly owner: string;
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

  async #search(text: string, options: SearchOptions, scope: SearchScope): Promise<Ranked[]> {
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
  async #find(query: Query, scope: SearchScope): Promise<Ranked[]> {
    const hits = new Map<string, Ranked>();
    let below = Number.MAX_SAFE_INTEGER;
    for (let limit = FIRST_PAGE; hits.size < query.limit; limit = Math.min(limit * 2, PAGE)) {
      const numbers = await this.#index.texts.find(query.folded, { below, limit });
      const places = await this.#placesOf(numbers);
      await this.#addHits(places, query, scope, hits);
      const last = places.at(-1);
      if (numbers.length < limit) break;
      below = numbers.at(-1) as number;
      // The rest of what has a hit already need not be looked at.
      if (last && hits.has(last.owner)) below = last.source.id * DOCUMENTS_PER_SOURCE;
    }
    return [...hits.values()].sort(byRank).slice(0, query.limit);
  }

  async #placesOf(numbers: readonly number[]): Promise<Place[]> {
    const ids = [...new Set(numbers.map((number) => Math.floor(number / DOCUMENTS_PER_SOURCE)))];
    const sources = new Map<number, Omit<Place, "ordinal">>();
    for (const source of await this.#index.texts.sourcesById(ids)) {
      if (source) sources.set(source.id, { source, owner: ownerOf(source.name) });
    }
    return numbers.flatMap((number) => {
      const found = sources.get(Math.floor(number / DOCUMENTS_PER_SOURCE));
      return found ? [{ ...found, ordinal: number % DOCUMENTS_PER_SOURCE }] : [];
    });
  }

  /** Looks at places until there are enough hits, as many conversations at once as hits are missing. */
  async #addHits(places: readonly Place[], query: Query, scope: SearchScope, hits: Map<string, Ranked>): Promise<void> {
    const byOwner = new Map<string, Place[]>();
    for (const place of places) {
      const { owner } = place;
      if (hits.has(owner)) continue;
      const known = byOwner.get(owner);
      if (known) known.push(place);
      else byOwner.set(owner, [place]);
    }
    const owners = [...byOwner.keys()];
    for (let next = 0; next < owners.length && hits.size < query.limit;) {
      const some = owners.slice(next, (next += Math.max(query.limit - hits.size, MIN_AT_ONCE)));
      const ofConversations = some.filter(isConversation);
      const conversations = await this.#conversationsOf(ofConversations.map(idOf), query);
      // Most often the first place of each is a hit; others are read where it is not, more and more of them.
      for (const [from, to] of SLICES) {
        const places = new Map(some.map((owner) => [owner, (byOwner.get(owner) as Place[]).slice(from, to)]));
        await this.#addConversations(conversations, places, query, hits);
      }
      if (scope === "conversations") continue;
      for (const owner of some) {
        if (!isConversation(owner)) await this.#addSession(owner, byOwner.get(owner) as Place[], query, hits);
      }
    }
  }

  /** Those that are wanted, by their keys. */
  async #conversationsOf(ids: readonly string[], query: Query): Promise<Map<string, FoundConversation>> {
    const { agent, tags = [], archived } = query;
    const found = new Map<string, FoundConversation>();
    const records = await this.#context.store.get(ids.map(conversationKey));
    for (const [index, stored] of records.entries()) {
      if (!stored || !("value" in stored)) continue;
      const record = decodeConversation(stored.value);
      if (agent !== undefined && record.agent !== agent) continue;
      if (archived !== undefined && record.archived !== archived) continue;
      if (tags.every((tag) => record.tags.includes(tag))) found.set(stored.key, { id: ids[index] as string, record });
    }
    return found;
  }

  /** Adds those of the conversations in which one of these places is a hit. */
  async #addConversations(
    conversations: ReadonlyMap<string, FoundConversation>,
    places: ReadonlyMap<string, readonly Place[]>,
    query: Query,
    hits: Map<string, Ranked>,
  ): Promise<void> {
    const wanted = [...places].flatMap(([owner, ofOwner]) => {
      const conversation = conversations.get(owner);
      return conversation && !hits.has(owner) ? ofOwner.map((place) => ({ owner, conversation, place })) : [];
    });
    if (wanted.length === 0 || hits.size >= query.limit) return;
    const entries = await this.#entries(wanted);
    const found = new Map<string, FoundSaying>();
    for (const [index, { owner, conversation }] of wanted.entries()) {
      const said = entries[index];
      if (!said || found.has(owner) || hits.size + found.size >= query.limit) continue;
      const { id, role, timestamp, text } = said;
      if ((query.role !== undefined && role !== query.role) || (timestamp ?? query.from) < query.from) continue;
      const match = findMatch(text, query.folded);
      if (match) found.set(owner, { conversation, messageId: id, role, timestamp, match });
    }
    const names = await this.#namesOf([...found.values()]);
    for (const [index, [owner, saying]] of [...found].entries()) {
      const { title, lastMessageAt } = names[index] as NamedConversation;
      const { conversation, messageId, role, timestamp = lastMessageAt, match } = saying;
      if (timestamp < query.from) continue;
      const { id, record } = conversation;
      const place = { source: "conversation" as const, id, agent: record.agent, path: undefined, branch: undefined };
      const hit = { ...place, messageId, role, timestamp, snippet: match.snippet };
      hits.set(owner, { hit, title, wholeWord: match.wholeWord });
    }
  }

  /** What the conversations of these hits are called, and when their last messages came. */
  async #namesOf(found: readonly FoundSaying[]): Promise<NamedConversation[]> {
    const keys = found.flatMap(({ conversation: { id, record } }) => [
      derivedTitleKey(id, record.number),
      lastMessageTimeKey(id, record.number),
    ]);
    const records = keys.length === 0 ? [] : await this.#context.store.get(keys);
    return found.map(({ conversation: { record } }, index) => {
      const [title, last] = [records[2 * index], records[2 * index + 1]];
      const firstTitle = title && "value" in title ? (JSON.parse(title.value) as string) : undefined;
      return {
        title: record.title ?? firstTitle,
        lastMessageAt: last && "value" in last ? Number(last.value) : record.createdAt,
      };
    });
  }

  /** What is said at these places, one for one, read at once; `undefined` where something else is there by now. */
  async #entries(
    wanted: readonly { readonly conversation: FoundConversation; readonly place: Place }[],
  ): Promise<(Saying | undefined)[]> {
    const isTitle = ({ conversation, place }: (typeof wanted)[0]): boolean =>
      place.source.name === titleSource(conversation.id);
    const pieces = wanted.map((each) => (isTitle(each) ? undefined : pieceAt(each.conversation, each.place)));
    const read = await readMessages(
      this.#context,
      pieces.flatMap((piece) => piece ?? []),
    );
    let next = 0;
    return pieces.map((piece, index) => {
      const each = wanted[index] as (typeof wanted)[0];
      if (isTitle(each)) return titleOf(each.place.source);
      const entry = piece && read[next++];
      return entry && !("unreadable" in entry) ? entry : undefined;
    });
  }

  async #addSession(owner: string, places: readonly Place[], query: Query, hits: Map<string, Ranked>): Promise<void> {
    const branches = new Map<string, number[]>();
    for (const { source, ordinal } of places) {
      branches.set(source.name, [...(branches.get(source.name) ?? []), ordinal]);
    }
    for (const [name, ordinals] of branches) {
      const hit = await this.#sessionHit(name, ordinals, query).catch((error: unknown) => {
        // It is told by its event; others may have a hit.
        if (isSavepointError(error, "DAMAGED")) return undefined;
        throw error;
      });
      if (!hit) continue;
      hits.set(owner, hit);
      return;
    }
  }

  /** The first of these messages of a branch that is a hit. */
  async #sessionHit(name: string, ordinals: readonly number[], query: Query): Promise<Ranked | undefined> {
    const [, id = "", branch = ""] = name.split("\t");
    // Tags and the archive are of conversations.
    const { tags = [], archived, role, from, folded } = query;
    if (tags.length > 0 || archived !== undefined) return undefined;
    const session = await new SessionReader(this.#context, id).session();
    const agent = session?.record.agent;
    if (!session || (query.agent !== undefined && agent !== query.agent)) return undefined;
    const messages = (await readSessionMessages(this.#context, id, branch)) ?? [];
    for (const ordinal of ordinals) {
      const message = messages[ordinal];
      if (!message || (role !== undefined && message.role !== role)) continue;
      if (from > Number.NEGATIVE_INFINITY && (message.timestamp ?? 0) < from) continue;
      const match = findMatch(message.text, folded);
      if (!match) continue;
      const { id: messageId, path, timestamp } = message;
      const place = { source: "session" as const, id, agent, messageId, path, branch };
      const hit = { ...place, role: message.role, timestamp, snippet: match.snippet };
      return { hit, title: undefined, wholeWord: match.wholeWord };
    }
    return undefined;
  }
}

/** Where the message of a document is; `undefined` where the conversation has been cut since. */
function pieceAt({ record }: FoundConversation, { source, ordinal }: Place): Piece | undefined {
  if (source.note !== noteOf(record)) return undefined;
  const base = countPieces(record.base);
  if (ordinal < base) return slicePieces(record.base, ordinal, ordinal + 1)[0];
  return { tape: record.number, start: record.tapeStart + ordinal - base, count: 1 };
}

function titleOf({ note }: TextSource): Saying {
  return { id: undefined, role: undefined, timestamp: undefined, text: titleOfNote(note) };
}

const FIELDS = new Set(["agent", "role", "tags", "archived", "since", "limit"]);

function takeQuery(text: string, options: SearchOptions): Query {
  validateFields(options, "What limits a search", FIELDS);
  if (typeof text !== "string") {
    throw invalidArgument(`What is searched for is a text, not of type ${typeof text}.`);
  }
  const { since, limit = 10 } = options;
  const from = since === undefined ? Number.NEGATIVE_INFINITY : parseTimestamp(since, "`since`");
  validateCount(limit, "`limit`");
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

const idOf = conversationOfKey;

/** What has one hit at most: a conversation with its title, or a session with its branches. */
function ownerOf(name: string): string {
  return name.split("\t", 2).join("\t");
}
