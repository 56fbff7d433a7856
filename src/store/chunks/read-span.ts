/** Reading a span of items from the rows that hold it. */
import type { Frame, ItemSpan, Unreadable } from "../contract/index.js";
import { type ChunkRow, unpackItem, unpackChunk } from "./chunk-codec.js";

/** Adds the items of a span, one for one, from the rows that hold it; what is missing or damaged says so. */
export function readSpan(
  rows: readonly LazyChunk[],
  { tape, start, count }: ItemSpan,
  found: (Frame | Unreadable)[],
): void {
  const end = start + count;
  let next = start;
  const missing = (until: number): void => {
    for (; next < until; next++) found.push({ unreadable: `item ${next} of tape ${tape} is missing` });
  };
  for (const [index, run] of rows.entries()) {
    const { first, count: length } = run;
    if (first + length <= start) continue;
    missing(Math.min(first, end));
    // No row reaches into the next one: a damaged count must not hide what is good.
    const until = Math.min(end, first + length, rows[index + 1]?.first ?? end);
    for (; next < until; next++) found.push(run.item(next - first, count === 1));
  }
  missing(end);
}

/** A row of items, unpacked when they are asked for. */
export class LazyChunk {
  readonly first: number;
  readonly count: number;
  readonly #row: ChunkRow | undefined;
  #items: ReturnType<typeof unpackChunk> | undefined;
  #asked = 0;

  /** @param problem why it cannot be read, if there is no row */
  constructor(place: { readonly first: number; readonly count: number }, row: ChunkRow | undefined, problem = "") {
    this.first = place.first;
    this.count = place.count;
    this.#row = row;
    if (!row) this.#items = { unreadable: problem };
  }

  /** @param alone is it the only one that is wanted? Then the others are left alone, once or twice */
  item(index: number, alone: boolean): Frame | Unreadable {
    const row = this.#row as ChunkRow;
    const one = alone && !this.#items && this.#asked++ < MAX_ALONE ? unpackItem(row, index) : undefined;
    if (one) return one;
    this.#items ??= unpackChunk(row);
    return "unreadable" in this.#items ? this.#items : (this.#items[index] as Frame | Unreadable);
  }
}

/** Items that are read one by one before the whole row is unpacked. */
const MAX_ALONE = 3;
