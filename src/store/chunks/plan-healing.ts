/** Which rows of a tape take the place of others when items are put where none can be read. */
import type { Frame } from "../contract/index.js";
import { type ChunkRow, unpackChunk } from "./chunk-codec.js";
import { packScattered } from "./chunk-groups.js";

/** Rows are not longer than this: what a damaged count says must not be believed. */
const LONGEST = 2 ** 16;

/** Rows that are put in the place of one, or where there is none. */
export interface Healing<Row> {
  readonly row: Row | undefined;
  readonly rows: readonly ChunkRow[];
  /** How many items are healed by it. */
  readonly healed: number;
}

/**
 * Items that can be read stay as they are, and so do rows of which none is healed.
 *
 * @param rows all rows of the tape, in order
 */
export function planHealing<Row extends ChunkRow>(
  tape: string,
  rows: readonly Row[],
  items: ReadonlyMap<number, Frame>,
): Healing<Row>[] {
  const missing = new Map(items);
  const plan: Healing<Row>[] = [];
  for (const [index, row] of rows.entries()) {
    // Nor must it reach into the next row.
    const end = Math.min(row.first + row.count, rows[index + 1]?.first ?? Infinity, row.first + LONGEST);
    const found = unpackChunk(row);
    const kept = new Map<number, Frame>();
    let healed = 0;
    for (let item = row.first; item < end; item++) {
      const good = "unreadable" in found ? undefined : found[item - row.first];
      const healing = items.get(item);
      missing.delete(item);
      if (good && "json" in good) kept.set(item, good);
      else if (healing) {
        kept.set(item, healing);
        healed++;
      }
    }
    if (healed > 0) plan.push({ row, rows: packScattered(tape, kept), healed });
  }
  if (missing.size > 0) plan.push({ row: undefined, rows: packScattered(tape, missing), healed: missing.size });
  return plan;
}
