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
   * How the WAL is made durable. For tests and benchmarks: a disk that is slow, or fails.
   * @default fdatasync of node:fs
   */
  readonly syncFile?: SyncFile;
  /**
   * Called at every named point of a write, with its name. For crash tests: the process may be killed there.
   */
  readonly probe?: (point: WritePoint) => void;
}

/** Syncs an open file, like `fdatasync` of node:fs. */
export type SyncFile = (file: number, done: (error: Error | null) => void) => void;

/** Where a write can be interrupted. */
export const WRITE_POINTS = [
  "begin",
  "checked",
  "records",
  "items",
  "blobs",
  "commit",
  "committed",
  "durable",
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
