/** The size of chunks, which of them are packed together, and which of their items are live. */
import { IntervalSet, partitionPoint, type Span } from "../../util/index.js";
import type { Frame } from "../contract/index.js";
import { RAW } from "./compression.js";
import { bodyLength, type ChunkPlace, type ChunkRow, packChunk } from "./chunk-codec.js";

/** A chunk is full with this many items, or with this many bytes. */
export const CHUNK_ITEMS = 64;
export const CHUNK_BYTES = 65_536;

/** Packs consecutive items into uncompressed chunks of at most the full size in bytes. */
export function packItems(tape: string, first: number, items: readonly Frame[]): ChunkRow[] {
  const rows: ChunkRow[] = [];
  let from = 0;
  let bytes = 0;
  for (const [index, { json }] of items.entries()) {
    bytes += json.length;
    if (bytes < CHUNK_BYTES && index < items.length - 1) continue;
    rows.push(packChunk(tape, first + from, items.slice(from, index + 1)));
    from = index + 1;
    bytes = 0;
  }
  return rows;
}

/** Packs items with any numbers into uncompressed chunks: consecutive ones share a chunk. */
export function packScattered(tape: string, items: ReadonlyMap<number, Frame>): ChunkRow[] {
  const rows: ChunkRow[] = [];
  let frames: Frame[] = [];
  let first = 0;
  const flush = (): void => {
    if (frames.length > 0) rows.push(packChunk(tape, first, frames));
    frames = [];
  };
  for (const [item, frame] of [...items].sort(([a], [b]) => a - b)) {
    if (item !== first + frames.length || frames.length >= CHUNK_ITEMS) flush();
    if (frames.length === 0) first = item;
    frames.push(frame);
  }
  flush();
  return rows;
}

/** Groups neighbouring chunks of a tape, so that each group makes a full chunk. */
export function groupChunks<Row extends ChunkRow>(rows: readonly Row[]): Row[][] {
  const groups: Row[][] = [];
  for (const row of rows) {
    const group = groups.at(-1);
    const last = group?.at(-1);
    if (group && last && last.first + last.count === row.first && !isFull(group)) group.push(row);
    else groups.push([row]);
  }
  return groups;
}

/** Whether the chunk has several items and is not compressed. */
export function isUncompressedChunk(row: ChunkRow): boolean {
  return row.codec === RAW && row.count > 1;
}

/** Whether the chunks of a group together make a full chunk. */
export function isFull(group: readonly ChunkRow[]): boolean {
  const items = group.reduce((sum, row) => sum + row.count, 0);
  const bytes = group.reduce((sum, row) => sum + bodyLength(row), 0);
  return items >= CHUNK_ITEMS || bytes >= CHUNK_BYTES;
}

/**
 * Creates a function that returns the live spans of a chunk, where items below `below` are live only in the spans of `live`.
 * The returned spans neither overlap nor touch, because each may become a chunk, and no item may be in two.
 */
export function liveSpans(live: readonly Span[], below: number): (chunk: ChunkPlace) => Span[] {
  const set = new IntervalSet();
  // In order, so that each is added at the end.
  for (const { start, count } of [...live].sort((a, b) => a.start - b.start)) set.add(start, count);
  set.add(below, Infinity);
  const spans = set.spans();
  return ({ first, count }) => {
    const end = first + count;
    const from = partitionPoint(spans, (span) => span.start + span.count <= first);
    const to = partitionPoint(spans, (span) => span.start < end);
    return spans.slice(from, to).map((span) => {
      const start = Math.max(span.start, first);
      return { start, count: Math.min(span.start + span.count, end) - start };
    });
  };
}
