/** Plans how damaged or missing items of a tape are replaced. */
import type { Frame } from "../contract/index.js";
import { type ChunkRow, unpackChunk } from "./chunk-codec.js";
import { packScattered } from "./chunk-groups.js";

/** The most items of a chunk: the count of a damaged one may be anything. */
const MAX_COUNT = 2 ** 16;

/** Chunks that replace one, or fill a gap. */
export interface Healing<Row> {
  /** The chunk to delete; `undefined` for a gap. */
  readonly row: Row | undefined;
  /** The chunks to insert. */
  readonly rows: readonly ChunkRow[];
  /** The number of items that are healed. */
  readonly healed: number;
}

/**
 * Plans the replacements. Readable items stay unchanged, and so do chunks without a healed item.
 *
 * @param rows all chunks of the tape, in order
 */
export function planHealing<Row extends ChunkRow>(
  tape: string,
  rows: readonly Row[],
  items: ReadonlyMap<number, Frame>,
): Healing<Row>[] {
  const missing = new Map(items);
  const plan: Healing<Row>[] = [];
  for (const [index, row] of rows.entries()) {
    // A damaged count must not reach into the next chunk.
    const end = Math.min(row.first + row.count, rows[index + 1]?.first ?? Infinity, row.first + MAX_COUNT);
    const stored = unpackChunk(row);
    const kept = new Map<number, Frame>();
    let healed = 0;
    for (let item = row.first; item < end; item++) {
      const good = "unreadable" in stored ? undefined : stored[item - row.first];
      const replacement = items.get(item);
      missing.delete(item);
      if (good && "json" in good) kept.set(item, good);
      else if (replacement) {
        kept.set(item, replacement);
        healed++;
      }
    }
    if (healed > 0) plan.push({ row, rows: packScattered(tape, kept), healed });
  }
  if (missing.size > 0) plan.push({ row: undefined, rows: packScattered(tape, missing), healed: missing.size });
  return plan;
}
