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
    if (next >= until) continue;
    if (count === 1) result.push(chunk.item(next++ - first));
    else {
      const items = chunk.items();
      for (; next < until; next++)
        result.push("unreadable" in items ? items : (items[next - first] as Frame | Unreadable));
    }
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

  /** All items. */
  items(): (Frame | Unreadable)[] | Unreadable {
    return (this.#items ??= unpackChunk(this.#row as ChunkRow));
  }

  /** Whether the chunk is unpacked and intact, and contains all of these items. */
  holds({ start, count }: ItemSpan): boolean {
    const isInside = start >= this.first && start + count <= this.first + this.count;
    return isInside && this.#items !== undefined && !("unreadable" in this.#items);
  }

  /** One item. The first few calls do not unpack the whole chunk. */
  item(index: number): Frame | Unreadable {
    const isFew = !this.#items && this.#singleReads++ < MAX_SINGLE_READS;
    const item = isFew ? unpackItem(this.#row as ChunkRow, index) : undefined;
    if (item) return item;
    const items = this.items();
    return "unreadable" in items ? items : (items[index] as Frame | Unreadable);
  }
}
