/** Lists of rows as arrays, one for each column: the parameters of statements that write many rows. */
import type { ChunkRow } from "../chunks/index.js";
import type { KeyRange } from "../contract/index.js";
import { bytesArray, integerArray, textArray } from "./arrays.js";

/** Extracts one column of a list of rows. */
export type Column<T> = (rows: readonly T[]) => Buffer;

export function texts<T>(of: (row: T) => string | undefined): Column<T> {
  return (rows) => textArray(rows.map(of));
}

export function integers<T>(of: (row: T) => number): Column<T> {
  return (rows) => integerArray(rows.map(of));
}

export function bytes<T>(of: (row: T) => Uint8Array | undefined): Column<T> {
  return (rows) => bytesArray(rows.map(of));
}

export function columns<T>(rows: readonly T[], of: readonly Column<T>[]): Buffer[] {
  return of.map((column) => column(rows));
}

/** The two ends of key ranges. */
export const RANGE_ARRAYS: readonly Column<KeyRange>[] = [texts(({ from }) => from), texts(({ to }) => to)];

/** The columns of chunks, without the tape. */
export const CHUNK_ARRAYS: readonly Column<ChunkRow>[] = [
  integers(({ first }) => first),
  integers(({ count }) => count),
  integers(({ codec }) => codec),
  integers(({ sum }) => sum),
  bytes(({ head }) => head),
  bytes(({ body }) => body),
];
