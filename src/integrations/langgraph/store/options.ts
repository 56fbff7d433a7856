/** The options of a `SavepointStore`. */
import { type Duration, toMilliseconds } from "../../../index.js";
import { invalidArgument } from "../errors.js";
import type { StoreIndexOptions } from "./vectors.js";

/** How a `SavepointStore` stores items. */
export interface SavepointStoreOptions {
  /**
   * The agent that the sessions of the namespaces belong to; their ids begin with it. Stores with different agents do not see each
   * other's items, and each agent can have its own retention policy. Set it if the store was opened with a `scope`.
   * @default "memory"
   */
  readonly agent?: string;
  /**
   * Embeds items for semantic search: `search()` with a `query`. Without it, `query` is ignored.
   * @default no embeddings
   */
  readonly index?: StoreIndexOptions;
  /**
   * The lifetime of an item after it was put, or read if `refreshTtl` is set. An expired item is treated as missing. It is removed by the
   * next write to its namespace, or by {@link SavepointStore.deleteExpired}.
   * @default no expiry
   */
  readonly ttl?: Duration;
  /**
   * Whether `get()` and `search()` extend the lifetime of the items that they return. That writes if at least a tenth of
   * the lifetime has passed since the last extension.
   * @default true
   */
  readonly refreshTtl?: boolean;
  /**
   * The clock, in milliseconds since 1970.
   * @default Date.now
   */
  readonly now?: () => number;
}

/** Options of a read. */
export interface ReadItemOptions {
  /**
   * Whether the read extends the lifetime of the items that it returns.
   * @default the option of the store
   */
  readonly refreshTtl?: boolean;
}

/** Options of `SavepointStore.put()`. */
export interface PutItemOptions {
  /**
   * The lifetime of the item.
   * @default the option of the store
   */
  readonly ttl?: Duration;
}

/** Options of `SavepointStore.search()`. */
export interface SearchItemsOptions extends ReadItemOptions {
  /** Fields that the value must have; see {@link SavepointStore.search}. */
  // oxlint-disable-next-line typescript/no-explicit-any -- the type of LangGraph's BaseStore
  readonly filter?: Record<string, any>;
  /** @default 10 */
  readonly limit?: number;
  /** @default 0 */
  readonly offset?: number;
  /** Ranks the items by the similarity of their texts to this one. */
  readonly query?: string;
}

/** A lifetime in milliseconds. */
export function parseTtl(ttl: Duration | undefined): number | undefined {
  if (ttl === undefined) return undefined;
  const time = toMilliseconds(ttl, "ttl");
  if (time > 0) return time;
  throw invalidArgument(`\`ttl\` must be greater than 0, got ${JSON.stringify(ttl)}.`);
}

/** A `limit` or an `offset`. */
export function parseCount(count: unknown, name: string): number {
  if (Number.isSafeInteger(count) && (count as number) >= 0) return count as number;
  throw invalidArgument(`\`${name}\` must be a non-negative integer, got ${String(count)}.`);
}
