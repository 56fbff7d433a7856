/** Options of a SQLite store, and the points where a test can interrupt its writes. */
import type { DiskOptions } from "../contract/index.js";
import type { SqliteDatabase } from "./driver.js";

/** Options of a SQLite store. */
export interface SqliteOptions extends DiskOptions {
  /**
   * Compress chunks and blobs that become at least a fifth smaller: with zstd as soon as they are packed, if Node has it;
   * otherwise with deflate when the store is compacted. Every version of Node reads both. Without compression, a damaged byte
   * costs one item instead of the 64 of a chunk.
   * @default true
   */
  readonly compress?: boolean;
}

/** The database of a store: a file, `":memory:"`, or a handle that the caller opened and will close. */
export type SqliteTarget = string | SqliteDatabase;

/** The points of a write at which a crash test can stop the process. */
export const WRITE_POINTS = [
  "begin",
  "checked",
  "buffer",
  "records",
  "items",
  "blobs",
  "commit",
  "committed",
  "durable",
  "flush:written",
  "pack:begin",
  "pack:written",
  "pack:commit",
  "pack:committed",
] as const;
export type WritePoint = (typeof WRITE_POINTS)[number];
