/** LangGraph's long-term memory. */
import {
  BaseStore,
  type GetOperation,
  type Item,
  type ListNamespacesOperation,
  type Operation,
  type OperationResults,
  type PutOperation,
  type SearchItem,
  type SearchOperation,
} from "@langchain/langgraph-checkpoint";
import { isSavepointError, type Savepoint, type Session } from "../../../index.js";
import { invalidArgument } from "../errors.js";
import { matchesFilter } from "./filter.js";
import type { ItemChange } from "./changes.js";
import {
  type Fields,
  isExpired,
  liveItems,
  type NamespaceState,
  needsRefresh,
  type StoredItem,
  toItem,
} from "./items.js";
import { Memories } from "./memories.js";
import type { Memory, MemoryContext } from "./memory.js";
import {
  commonPrefix,
  isValidNamespace,
  listDistinct,
  matchesCondition,
  type Namespace,
  parseConditions,
  queueIdOf,
  validateNamespace,
} from "./namespaces.js";
import {
  parseCount,
  parseTtl,
  type PutItemOptions,
  type ReadItemOptions,
  type SavepointStoreOptions,
  type SearchItemsOptions,
} from "./options.js";
import { embedPuts, parsePut, type PutRequest } from "./puts.js";
import { TurnQueue } from "./turn-queue.js";
import { Embedder, rankBySimilarity } from "./vectors.js";

/** An item that a search has found. */
interface Match {
  readonly memory: Memory;
  readonly item: StoredItem;
}

type GetRequest = GetOperation & ReadItemOptions;
type SearchRequest = SearchOperation & ReadItemOptions;

/**
 * LangGraph's long-term memory in a Savepoint store. The items of a namespace are one session, `memory/users/ada` for
 * `["users", "ada"]`, and each put is a checkpoint that writes only its item. Everything that works with sessions works with memory namespaces: history, rewinding, search, retention, erasure, backups and the command line.
 *
 * A put is durable when it resolves. Any number of processes may write to one namespace.
 *
 * @example
 * const sp = await Savepoint.open("sqlite:./agents.db");
 * const graph = builder.compile({ checkpointer: new SavepointSaver(sp), store: new SavepointStore(sp) });
 */
export class SavepointStore extends BaseStore {
  readonly #memories: Memories;
  readonly #now: () => number;
  readonly #embedder: Embedder | undefined;
  readonly #ttl: number | undefined;
  readonly #refreshTtl: boolean;

  /** @param sp an open Savepoint; the store does not close it */
  constructor(sp: Savepoint, options: SavepointStoreOptions = {}) {
    super();
    // Checked by its methods, because the object can come from another copy of the package.
    if (typeof (sp as Partial<Savepoint> | undefined)?.session !== "function") {
      throw invalidArgument("SavepointStore needs an open Savepoint: new SavepointStore(await Savepoint.open(url)).");
    }
    const { agent = "memory", index, ttl, refreshTtl = true, now = Date.now } = options;
    const context: MemoryContext = { sp, agent, now, turns: new TurnQueue(sp, agent, queueIdOf(agent)) };
    this.#memories = new Memories(context);
    this.#now = now;
    this.#embedder = index && new Embedder(index);
    this.#ttl = parseTtl(ttl);
    this.#refreshTtl = refreshTtl;
  }

  /** The item under a key; `null` if there is none. */
  override async get(namespace: string[], key: string, options: ReadItemOptions = {}): Promise<Item | null> {
    return this.#get({ namespace, key, ...options });
  }

  /**
   * The items of a namespace and of all namespaces below it, oldest namespace first, and oldest item first.
   *
   * `filter` compares fields of the values: `{ color: "red", score: { $gte: 5 } }`, with the operators `$eq`, `$ne`, `$gt`, `$gte`, `$lt`,
   * `$lte`, `$in` and `$nin`. With a `query`, the items are ranked by the similarity of their vectors, and those without vectors come
   * last; every vector of these namespaces is compared.
   */
  override async search(namespacePrefix: string[], options: SearchItemsOptions = {}): Promise<SearchItem[]> {
    return this.#search({ namespacePrefix, ...options });
  }

  /**
   * Stores an item, in one commit. It replaces the one with the same key. Writes only this item.
   *
   * @param index the fields that are embedded instead of those of the store; `false` for none
   */
  override async put(
    namespace: string[],
    key: string,
    // oxlint-disable-next-line typescript/no-explicit-any -- the type of LangGraph's BaseStore
    value: Record<string, any>,
    index?: false | string[],
    options: PutItemOptions = {},
  ): Promise<void> {
    await this.#putAll([{ namespace, key, value, ...(index !== undefined && { index }), ...options }]);
  }

  /**
   * Executes operations in their order. Puts that follow one another are saved together: those of one namespace in one commit, and
   * their texts are embedded with one call of the model.
   */
  override async batch<Op extends Operation[]>(operations: Op): Promise<OperationResults<Op>> {
    const results: unknown[] = [];
    while (results.length < operations.length) {
      const rest = operations.slice(results.length);
      const end = rest.findIndex((operation) => isPut(operation) !== isPut(rest[0] as Operation));
      const group = end === -1 ? rest : rest.slice(0, end);
      const puts = group.filter(isPut);
      await this.#putAll(puts);
      const reads = group.map(async (operation) => (isPut(operation) ? undefined : this.#read(operation)));
      results.push(...(await Promise.all(reads)));
    }
    return results as OperationResults<Op>;
  }

  /** Removes the items that have expired, and returns their number. Earlier checkpoints of their namespaces still contain them. */
  async deleteExpired(): Promise<number> {
    let deleted = 0;
    const now = this.#now();
    const found = await this.#memories.findAll([]);
    const expired = found.filter(({ outline }) => outline.expires !== undefined && outline.expires.first <= now);
    for await (const { memory, state } of this.#memories.states(expired)) {
      deleted += state.pages.flat().filter((item) => isExpired(item, now)).length;
      // Every change removes what has expired.
      await memory.change(Promise.resolve([]));
    }
    return deleted;
  }

  /** The session that stores a namespace. Its state has the items of the namespace. */
  session(namespace: string[]): Session<NamespaceState> {
    validateNamespace(namespace);
    return this.#memories.get(namespace).session();
  }

  async #read(operation: Exclude<Operation, PutOperation>): Promise<unknown> {
    if ("namespacePrefix" in operation) return this.#search(operation);
    return "key" in operation ? this.#get(operation) : this.#listNamespaces(operation);
  }

  async #get({ namespace, key, refreshTtl = this.#refreshTtl }: GetRequest): Promise<Item | null> {
    if (!isValidNamespace(namespace)) return null;
    const memory = this.#memories.get(namespace);
    const item = await memory.item(key);
    this.#memories.evict();
    if (!item || isExpired(item, this.#now())) return null;
    if (refreshTtl) await this.#refresh([{ memory, item }]);
    return toItem(namespace, item);
  }

  async #search(request: SearchRequest): Promise<SearchItem[]> {
    const { namespacePrefix, filter, query, refreshTtl = this.#refreshTtl } = request;
    const limit = parseCount(request.limit ?? 10, "limit");
    const offset = parseCount(request.offset ?? 0, "offset");
    if (!Array.isArray(namespacePrefix)) throw invalidArgument("`namespacePrefix` must be an array of labels.");
    if (namespacePrefix.length > 0 && !isValidNamespace(namespacePrefix)) return [];
    const embedder = query === undefined || query === "" ? undefined : this.#embedder;
    // The order is known without reading everything, unless the items are ranked.
    const matches = await this.#match(namespacePrefix, filter, embedder ? Number.POSITIVE_INFINITY : offset + limit);
    const page = (list: readonly { entry: Match; score: number | undefined }[]): SearchItem[] =>
      list.map(({ entry: { memory, item }, score }) => ({
        ...toItem(memory.namespace, item),
        ...(score !== undefined && { score }),
      }));
    const ranked = embedder
      ? await rankBySimilarity(matches, ({ item }) => item.vectors, await embedder.embedQuery(query as string))
      : matches.map((entry) => ({ entry, score: undefined }));
    const found = ranked.slice(offset, offset + limit);
    if (refreshTtl) await this.#refresh(found.map(({ entry }) => entry));
    return page(found);
  }

  /** The first items of these namespaces that match a filter, at most `max` of them. */
  async #match(prefix: Namespace, filter: Fields | undefined, max: number): Promise<Match[]> {
    const matches: Match[] = [];
    const now = this.#now();
    for await (const { memory, state } of this.#memories.states(await this.#memories.find(prefix))) {
      for (const item of liveItems(state, now)) {
        if (!filter || matchesFilter(item.value, filter)) matches.push({ memory, item });
      }
      if (matches.length >= max) break;
    }
    return matches;
  }

  async #listNamespaces(operation: ListNamespacesOperation): Promise<string[][]> {
    const { maxDepth, limit, offset } = operation as Partial<ListNamespacesOperation>;
    const conditions = parseConditions(operation.matchConditions);
    const start = parseCount(offset ?? 0, "offset");
    if (maxDepth !== undefined) parseCount(maxDepth, "maxDepth");
    const prefix = commonPrefix(conditions);
    if (prefix.length > 0 && !isValidNamespace(prefix)) return [];
    const found = await this.#memories.find(prefix);
    const namespaces = found
      .map(({ memory }) => memory.namespace)
      .filter((namespace) => conditions.every((condition) => matchesCondition(namespace, condition)));
    const end = limit === undefined ? undefined : start + parseCount(limit, "limit");
    return listDistinct(namespaces, maxDepth).slice(start, end);
  }

  /** Saves puts and deletes: a commit for each namespace. */
  async #putAll(puts: readonly PutRequest[]): Promise<void> {
    if (puts.length === 0) return;
    const parsed = puts.flatMap((put) => parsePut(put, this.#now(), this.#ttl));
    const embedded = embedPuts(parsed, this.#embedder);
    const saves = new Map<Memory, number[]>();
    for (const [index, { namespace }] of parsed.entries()) {
      const memory = this.#memories.get(namespace);
      const of = saves.get(memory);
      if (of) of.push(index);
      else saves.set(memory, [index]);
    }
    const changes = async (indexes: readonly number[]): Promise<ItemChange[]> => {
      const all = await embedded;
      return indexes.map((index) => all[index] as ItemChange);
    };
    const results = await Promise.allSettled([...saves].map(([memory, indexes]) => memory.change(changes(indexes))));
    this.#memories.evict();
    const failed = results.find((result) => result.status === "rejected");
    if (failed) throw failed.reason;
  }

  /** Extends the lifetimes of items that were read. */
  async #refresh(read: readonly Match[]): Promise<void> {
    const now = this.#now();
    const changes = new Map<Memory, ItemChange[]>();
    for (const { memory, item } of read) {
      if (!needsRefresh(item, now)) continue;
      const of = changes.get(memory) ?? [];
      changes.set(memory, [...of, { kind: "refresh", key: item.key }]);
    }
    try {
      await Promise.all([...changes].map(([memory, each]) => memory.change(Promise.resolve(each))));
    } catch (error) {
      // Reads also work in a read-only store, where no lifetime can be extended.
      if (!isSavepointError(error, "READ_ONLY")) throw error;
    }
  }
}

function isPut(operation: Operation): operation is PutOperation {
  return "value" in operation;
}
