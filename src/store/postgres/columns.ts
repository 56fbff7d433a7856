/** Lists of records and rows as arrays, one for each of their columns: how one statement takes many of them. */
import type { ChunkRow } from "../chunks/index.js";
import { bytesArray, integerArray, textArray } from "./arrays.js";
import { refsSum, valueSum } from "./rows.js";

/** How one column of a list becomes an array. */
export type Column<T> = (things: readonly T[]) => Buffer;

export function texts<T>(of: (thing: T) => string | undefined): Column<T> {
  return (things) => textArray(things.map(of));
}

export function integers<T>(of: (thing: T) => number): Column<T> {
  return (things) => integerArray(things.map(of));
}

export function bytes<T>(of: (thing: T) => Uint8Array | undefined): Column<T> {
  return (things) => bytesArray(things.map(of));
}

export function columns<T>(things: readonly T[], of: readonly Column<T>[]): Buffer[] {
  return of.map((column) => column(things));
}

/** Key, sums, refs and value. */
export const RECORD_ARRAYS: readonly Column<{ readonly key: string; readonly refs: string; readonly value: string }>[] =
  [
    texts(({ key }) => key),
    integers(({ key, value }) => valueSum(key, value)),
    integers(({ key, refs }) => refsSum(key, refs)),
    texts(({ refs }) => refs),
    texts(({ value }) => value),
  ];

/** All but the tape. */
export const CHUNK_ARRAYS: readonly Column<ChunkRow>[] = [
  integers(({ first }) => first),
  integers(({ count }) => count),
  integers(({ codec }) => codec),
  integers(({ sum }) => sum),
  bytes(({ head }) => head),
  bytes(({ body }) => body),
];
