/** Options of a SQLite store. */
import { type Duration, toMilliseconds } from "../duration.js";
import type { SqliteDatabase } from "./driver.js";

/** What a commit survives. */
export type Durability = "power" | "process";

export interface SqliteOptions {
  /**
   * `"power"`: what is committed survives a power cut; each group of commits waits for the disk. `"process"`: it survives
   * `kill -9` but not a power cut, and commits do not wait for the disk.
   * @default "power"
   */
  readonly durability?: Durability;
  /**
   * How long a commit waits for another process that is writing, before it fails with `BUSY`.
   * @default "10s"
   */
  readonly busyTimeout?: Duration;
  /**
   * The clock, in milliseconds.
   * @default Date.now
   */
  readonly now?: () => number;
  /**
   * Compress items where that makes them a fifth smaller or more: with zstd as soon as they are packed, where Node has it;
   * with deflate when the store is compacted, elsewhere. Either is read by every version of Node. Without it a damaged
   * byte costs one item instead of the 64 that are packed together.
   * @default true
   */
  readonly compress?: boolean;
  /**
   * Told when something fails while nobody waits for it: packing items, or copying the WAL into the database, by which
   * nothing is lost; or when a commit is found so damaged that nobody can tell what it was.
   * @default console.warn
   */
  readonly onBackgroundFailure?: (failure: BackgroundFailure) => void;
  /**
   * How the WAL is made durable. For tests and benchmarks: a disk that is slow, or fails.
   * @default fdatasync of node:fs
   */
  readonly syncFile?: SyncFile;
  /**
   * Called at every named point of a write, with its name. For crash tests: the process may be killed there.
   */
  readonly probe?: (point: WritePoint) => void;
}

/** Something that failed while nobody waited for it. */
export interface BackgroundFailure {
  /** What was being done, and what becomes of it. */
  readonly message: string;
  readonly error: unknown;
}

/** Tells of a failure in the background as the options want it. */
export function backgroundReport(options: SqliteOptions): (message: string, error: unknown) => void {
  const { onBackgroundFailure } = options;
  return (message, error) => {
    try {
      if (onBackgroundFailure) onBackgroundFailure({ message, error });
      else console.warn(`savepoint: ${message}:`, error);
    } catch (failure) {
      console.error("savepoint: the function that is told of failures in the background has failed:", failure);
    }
  };
}

/** Syncs an open file, like `fdatasync` of node:fs. */
export type SyncFile = (file: number, done: (error: Error | null) => void) => void;

/** Where a write can be interrupted. */
export const WRITE_POINTS = [
  "begin",
  "checked",
  "tail",
  "records",
  "items",
  "blobs",
  "commit",
  "committed",
  "durable",
  "fold:written",
  "seal:begin",
  "seal:written",
  "seal:commit",
  "seal:committed",
] as const;
export type WritePoint = (typeof WRITE_POINTS)[number];

/** How long to wait for other processes, in milliseconds. */
export function busyTimeoutOf(options: SqliteOptions): number {
  return toMilliseconds(options.busyTimeout ?? 10_000, "busyTimeout");
}

/** Where to open the store: a file, `":memory:"`, or the caller's own handle, which stays the caller's to close. */
export type SqliteTarget = string | SqliteDatabase;
