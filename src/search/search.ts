/**
 * Full-text search in conversations and in the newest states of sessions. The index returns candidates, the newest first;
 * hits.ts checks them until there are enough hits, one for each conversation and session.
 */
import { isSavepointError } from "../errors.js";
import { DOCUMENTS_PER_SOURCE } from "../store/index.js";
import { addToList } from "../util/index.js";
import type { Context } from "../context.js";
import { conversationOfKey } from "../records/index.js";
import { HitReader } from "./hits.js";
import {
  compareRank,
  type ConversationHit,
  parseQuery,
  type Query,
  type RankedHit,
  type SearchHit,
  type SearchOptions,
} from "./query.js";
import { type IndexedDocument, SearchIndex, type SearchScope } from "./search-index.js";
import { listTextSources, type TextOwner } from "./text-sources.js";

/** Candidates in the first page, and in later ones at most. Most searches need only the first. */
const FIRST_PAGE = 32;
const MAX_PAGE = 512;
/**
 * Slices of a conversation's candidates that are read one after another, until there is a hit: mostly the first one is.
 */
const SLICES = [
  [0, 1],
  [1, 5],
  [5, 25],
  [25, Number.POSITIVE_INFINITY],
] as const;
/** Conversations that are read together, even if fewer hits are missing. */
const MIN_BATCH = 4;

/** Searches a store. */
export class Search {
  readonly #context: Context;
  readonly #index: SearchIndex;
  readonly #hits: HitReader;

  constructor(context: Context) {
    this.#context = context;
    this.#index = new SearchIndex(context);
    this.#hits = new HitReader(context);
  }

  /** Searches conversations only. */
  async conversations(text: string, options: SearchOptions): Promise<ConversationHit[]> {
    const found = await this.#search(text, options, "conversations");
    return found.map(({ hit, title }) => {
      const { id, agent, messageId, role, timestamp = 0, snippet } = hit;
      return { conversationId: id, agent, title, messageId, role, timestamp, snippet };
    });
  }

  /** Searches conversations and sessions. */
  async all(text: string, options: SearchOptions): Promise<SearchHit[]> {
    return (await this.#search(text, options, "all")).map(({ hit }) => hit);
  }

  /**
   * Deletes something, and its texts from the index. The texts are removed before and after the deletion: before, so that none
   * are left if the process ends in between; after, because a search of another process may have indexed them again.
   */
  async withoutTexts<T>(owner: TextOwner, remove: () => Promise<T>): Promise<T> {
    const names = await listTextSources(this.#context, owner);
    await this.#index.remove(names);
    const result = await remove();
    await this.#index.remove(names);
    return result;
  }

  async #search(text: string, options: SearchOptions, scope: SearchScope): Promise<RankedHit[]> {
    const query = parseQuery(text, options);
    if (query.folded === "" || query.limit <= 0) return [];
    try {
      await this.#index.update(scope);
      return await this.#find(query, scope);
    } catch (error) {
      if (!isSavepointError(error, "DAMAGED")) throw error;
      // The index can be rebuilt from what is stored. If that is damaged, the second attempt throws.
      this.#context.events.emit("backgroundFailure", { message: "the search index is damaged and is rebuilt", error });
      await this.#index.clear();
      await this.#index.update(scope);
      return this.#find(query, scope);
    }
  }

  /** The best hit of each conversation and session, until there are enough or no more candidates. */
  async #find(query: Query, scope: SearchScope): Promise<RankedHit[]> {
    const hits = new Map<string, RankedHit>();
    let below = Number.MAX_SAFE_INTEGER;
    for (let limit = FIRST_PAGE; hits.size < query.limit; limit = Math.min(limit * 2, MAX_PAGE)) {
      const { documents, lowest, isLast } = await this.#index.find(query.folded, below, limit);
      await this.#addHits(documents, query, scope, hits);
      if (isLast) break;
      const last = documents.at(-1);
      // Further candidates of a conversation or session that has a hit are skipped.
      below = last && hits.has(last.owner) ? last.source.id * DOCUMENTS_PER_SOURCE : lowest;
    }
    return [...hits.values()].sort(compareRank).slice(0, query.limit);
  }

  /** Checks candidates until there are enough hits, as many conversations at once as hits are missing. */
  async #addHits(
    documents: readonly IndexedDocument[],
    query: Query,
    scope: SearchScope,
    hits: Map<string, RankedHit>,
  ): Promise<void> {
    const byOwner = new Map<string, IndexedDocument[]>();
    for (const document of documents) {
      if (!hits.has(document.owner)) addToList(byOwner, document.owner, document);
    }
    const owners = [...byOwner];
    for (let next = 0; next < owners.length && hits.size < query.limit;) {
      const batch = owners.slice(next, (next += Math.max(query.limit - hits.size, MIN_BATCH)));
      const ids = batch.filter(([owner]) => isConversation(owner)).map(([owner]) => conversationOfKey(owner));
      const conversations = await this.#hits.readConversations(ids, query);
      for (const [from, to] of SLICES) {
        const candidates = batch.flatMap(([owner, ofOwner]) => {
          const conversation = hits.has(owner) ? undefined : conversations.get(owner);
          return conversation ? ofOwner.slice(from, to).map((document) => ({ owner, conversation, document })) : [];
        });
        const found = await this.#hits.findInConversations(candidates, query, query.limit - hits.size);
        for (const [owner, hit] of found) hits.set(owner, hit);
      }
      if (scope === "conversations") continue;
      for (const [owner, ofOwner] of batch) {
        const hit = isConversation(owner) ? undefined : await this.#hits.findInSession(ofOwner, query);
        if (hit) hits.set(owner, hit);
      }
    }
  }
}

function isConversation(owner: string): boolean {
  return owner.startsWith("c\t");
}
