/** Options of a SQLite store. */
import type { DiskOptions } from "../contract/index.js";
import type { SqliteDatabase } from "./driver.js";

export interface SqliteOptions extends DiskOptions {
  /**
   * Compress items where that makes them a fifth smaller or more: with zstd as soon as they are packed, where Node has it;
   * with deflate when the store is compacted, elsewhere. Either is read by every version of Node. Without it a damaged
   * byte costs one item instead of the 64 that are packed together.
   * @default true
   */
  readonly compress?: boolean;
}

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

/** Where to open the store: a file, `":memory:"`, or the caller's own handle, which stays the caller's to close. */
export type SqliteTarget = string | SqliteDatabase;
