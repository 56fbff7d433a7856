/** Reads a span of items from the chunks that hold it. */
import type { Frame, ItemRefs, ItemSpan, Unreadable } from "../contract/index.js";
import { type ChunkPlace, type ChunkRow, type RefsRow, unpackChunk, unpackItem, unpackRefs } from "./chunk-codec.js";

/** Appends the items of a span to `result`, in order. Missing and damaged items are {@link Unreadable}. */
export function readSpan(
  chunks: readonly LazyChunk[],
  { tape, start, count }: ItemSpan,
  result: (Frame | Unreadable)[],
): void {
  const end = start + count;
  let next = start;
  const addMissing = (until: number): void => {
    for (; next < until; next++) result.push({ unreadable: `item ${next} of tape ${tape} is missing` });
  };
  for (const [index, chunk] of chunks.entries()) {
    const { first, count: length } = chunk;
    if (first + length <= start) continue;
    addMissing(Math.min(first, end));
    // Chunks do not overlap, so a damaged count must not hide the items of the next chunk.
    const until = Math.min(end, first + length, chunks[index + 1]?.first ?? end);
    for (; next < until; next++) result.push(chunk.item(next - first, count === 1));
  }
  addMissing(end);
}

/**
 * Lists the items of a span that have references; {@link Unreadable} if a chunk is damaged.
 *
 * @param rows the chunks that hold the span. Only those of a single item need a body
 */
export function readRefs(rows: readonly RefsRow[], { start, count }: ItemSpan): ItemRefs[] | Unreadable {
  const found: ItemRefs[] = [];
  for (const row of rows) {
    const refs = unpackRefs(row);
    if ("unreadable" in refs) return refs;
    found.push(...refs.filter(({ item }) => item >= start && item < start + count));
  }
  return found;
}

/** How many single items are read from a chunk before all of it is unpacked. */
const MAX_SINGLE_READS = 3;

/** A chunk that is unpacked when its items are read. */
export class LazyChunk {
  readonly first: number;
  readonly count: number;
  readonly #row: ChunkRow | undefined;
  #items: ReturnType<typeof unpackChunk> | undefined;
  #singleReads = 0;

  /** @param problem the reason why the chunk cannot be read, if there is no row */
  constructor(place: ChunkPlace, row: ChunkRow | undefined, problem = "") {
    this.first = place.first;
    this.count = place.count;
    this.#row = row;
    if (!row) this.#items = { unreadable: problem };
  }

  /** @param single whether only this item is read; if so, the first few calls do not unpack the whole chunk */
  item(index: number, single: boolean): Frame | Unreadable {
    const row = this.#row as ChunkRow;
    const item = single && !this.#items && this.#singleReads++ < MAX_SINGLE_READS ? unpackItem(row, index) : undefined;
    if (item) return item;
    this.#items ??= unpackChunk(row);
    return "unreadable" in this.#items ? this.#items : (this.#items[index] as Frame | Unreadable);
  }
}
