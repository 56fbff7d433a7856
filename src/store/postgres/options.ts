/** Options of a PostgreSQL store. */
import type { Duration } from "../../util/index.js";
import type { BackgroundFailure, Durability } from "../contract/index.js";
import type { PostgresPool } from "./driver.js";

export interface PostgresOptions {
  /**
   * The schema that has Savepoint's tables. It is made where there is none, and may be shared with tables of others. In a
   * URL: `?schema=agents`.
   * @default "savepoint"
   */
  readonly schema?: string;
  /**
   * Connections that are opened at most. Saves need one, whatever their number; reads run beside them.
   * @default 4
   */
  readonly connections?: number;
  /**
   * How long a read or a write that finds no database tries again, before it fails with `UNAVAILABLE`: a restart, or
   * a switch to another server, is waited for. Opening a store does not wait.
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
   * `"power"`: a commit is answered when the server has it on its disk, as far as the server is set up for that.
   * `"process"`: it is answered before; what was committed in the last moments before the server itself dies may be lost.
   * @default "power"
   */
  readonly durability?: Durability;
  /**
   * Compress items when they are packed, where that makes them a fifth smaller or more. Costs time in a thread.
   * @default true
   */
  readonly compress?: boolean;
  /**
   * Create the store if it does not exist, and upgrade one of an older format. With `false`, such a store is refused.
   * @default true
   */
  readonly create?: boolean;
  /**
   * The clock, in milliseconds. Machines that share a store have different clocks, so it is the database's.
   * @default the database's
   */
  readonly now?: () => number;
  /**
   * Told when something fails while nobody waits for it, such as packing what is stored, by which nothing is lost.
   * @default console.warn
   */
  readonly onBackgroundFailure?: (failure: BackgroundFailure) => void;
}

/** Where a write can be interrupted, seen from the process that makes it. */
export const POSTGRES_WRITE_POINTS = [
  "begin",
  "sent",
  "committed",
  "seal:begin",
  "seal:sent",
  "seal:committed",
] as const;
export type PostgresWritePoint = (typeof POSTGRES_WRITE_POINTS)[number];

/** Where to open the store: a URL, or the caller's own pool, which stays the caller's to end. */
export type PostgresTarget = string | PostgresPool;
