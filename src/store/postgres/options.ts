/** The options of a PostgreSQL store. */
import type { Duration } from "../../util/index.js";
import type { BackgroundFailure, Durability } from "../contract/index.js";
import type { PostgresPool } from "./driver.js";

/** Options of `postgres:` stores. */
export interface PostgresOptions {
  /**
   * The schema for Savepoint's tables. It is created if it does not exist, and may contain other tables. In a URL:
   * `?schema=agents`.
   * @default "savepoint"
   */
  readonly schema?: string;
  /**
   * The maximum number of connections. All saves share one; reads use the others.
   * @default 4
   */
  readonly connections?: number;
  /**
   * How long a read or write is retried while the database is unreachable, before it fails with `UNAVAILABLE`. This covers
   * a restart or a failover to another server. Opening a store does not wait.
   * @default "30s"
   */
  readonly patience?: Duration;
  /**
   * How long opening the store, and the search index, wait for a lock that another session of the server holds, before they
   * fail with `BUSY`. The error names that session.
   * @default "10s"
   */
  readonly busyTimeout?: Duration;
  /**
   * `"power"`: a commit resolves when the server has written it to its disk, as far as the server is configured for that.
   * `"process"`: a commit resolves earlier; the last commits before a crash of the server may be lost.
   * @default "power"
   */
  readonly durability?: Durability;
  /**
   * Compress items when they are packed, if that makes them at least a fifth smaller. Compression uses a thread.
   * @default true
   */
  readonly compress?: boolean;
  /**
   * Create the store if it does not exist, and upgrade one of an older format. With `false`, such a store is refused.
   * @default true
   */
  readonly create?: boolean;
  /**
   * Open the store only to read it: a user with SELECT privileges and a standby server are enough. Every write is rejected with
   * `READ_ONLY`. Implies `create: false`. A search builds its index in memory.
   * @default false
   */
  readonly readOnly?: boolean;
  /**
   * Use only statements that other databases with the protocol of PostgreSQL are documented to understand: plain changes of one
   * table, without notifications, advisory locks, collations and full-text search. Workers poll, and each process builds
   * its own search index in memory. A commit sends one statement for each record, still in one round trip. In a URL:
   * `?portable=true`.
   * @default false
   */
  readonly portable?: boolean;
  /**
   * The clock, in milliseconds. By default the clock of the database, because machines that share a store have different
   * clocks.
   * @default the clock of the database
   */
  readonly now?: () => number;
  /**
   * Called when background work, such as packing items, fails. Nothing is lost by such a failure.
   * @default console.warn
   */
  readonly onBackgroundFailure?: (failure: BackgroundFailure) => void;
}

/** The named points of a write, at which crash tests interrupt it. */
export const POSTGRES_WRITE_POINTS = [
  "begin",
  "sent",
  "committed",
  "pack:begin",
  "pack:sent",
  "pack:committed",
] as const;
export type PostgresWritePoint = (typeof POSTGRES_WRITE_POINTS)[number];

/** The database: a URL, or a pool of the caller, which the caller has to end. */
export type PostgresTarget = string | PostgresPool;
