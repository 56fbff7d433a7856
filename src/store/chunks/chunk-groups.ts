/** How large rows of items are meant to be, which of them are packed together, and what of a row is still needed. */
import type { Frame } from "../contract/index.js";
import { RAW } from "./compression.js";
import { bodyLength, packChunk, type ChunkRow } from "./chunk-codec.js";

/** A run is full with this many items, or with this many bytes. */
export const CHUNK_ITEMS = 64;
export const CHUNK_BYTES = 65_536;

/** Items that follow each other, as rows that are no larger than a packed one. */
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

/** Items with any numbers as rows: those that follow each other share one. */
export function packScattered(tape: string, items: ReadonlyMap<number, Frame>): ChunkRow[] {
  const rows: ChunkRow[] = [];
  let run: Frame[] = [];
  let first = 0;
  const flush = (): void => {
    if (run.length > 0) rows.push(packChunk(tape, first, run));
    run = [];
  };
  for (const [item, frame] of [...items].sort(([a], [b]) => a - b)) {
    if (item !== first + run.length || run.length >= CHUNK_ITEMS) flush();
    if (run.length === 0) first = item;
    run.push(frame);
  }
  flush();
  return rows;
}

/** Rows that stand side by side on their tape, in groups that make a full run. */
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

export function isUncompressedChunk(row: ChunkRow): boolean {
  return row.codec === RAW && row.count > 1;
}

export function isFull(group: readonly ChunkRow[]): boolean {
  const items = group.reduce((sum, row) => sum + row.count, 0);
  const bytes = group.reduce((sum, row) => sum + bodyLength(row), 0);
  return items >= CHUNK_ITEMS || bytes >= CHUNK_BYTES;
}

/**
 * Tells which numbers of a row stay, when those below `below` that are in none of the live spans may go: in spans that neither
 * overlap nor touch, because each becomes a row, and no item may be in two.
 */
export function liveSpans(
  live: readonly { readonly start: number; readonly count: number }[],
  below: number,
): (row: { readonly first: number; readonly count: number }) => { start: number; end: number }[] {
  const apart: { start: number; end: number }[] = [];
  const all = [...live.map(({ start, count }) => ({ start, end: start + count })), { start: below, end: Infinity }];
  for (const span of all.sort((a, b) => a.start - b.start)) {
    const last = apart.at(-1);
    if (last && span.start <= last.end) last.end = Math.max(last.end, span.end);
    else if (span.end > span.start) apart.push({ ...span });
  }
  return ({ first, count }) => {
    const found: { start: number; end: number }[] = [];
    for (let at = firstEndingAfter(apart, first); at < apart.length; at++) {
      const span = apart[at] as { start: number; end: number };
      if (span.start >= first + count) break;
      found.push({ start: Math.max(span.start, first), end: Math.min(span.end, first + count) });
    }
    return found;
  };
}

function firstEndingAfter(spans: readonly { readonly end: number }[], item: number): number {
  let [low, high] = [0, spans.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((spans[middle] as { end: number }).end <= item) low = middle + 1;
    else high = middle;
  }
  return low;
}
