/** Packing rows of items that stand side by side into one. */
import { compress, RAW } from "./compression.js";
import { joinBodies, packChecksummed, type ChunkRow, type ChecksummedFrame, unpackChecksummed } from "./chunk-codec.js";
import { groupChunks, isFull, isUncompressedChunk } from "./chunk-groups.js";

/**
 * The row that takes the place of these; `undefined` where there is none. A row alone is only compressed, where it is
 * large and is not compressed yet. A damaged item is never packed again under a fresh checksum: all stay as they are.
 */
export async function packGroup(group: readonly ChunkRow[], compressing: boolean): Promise<ChunkRow | undefined> {
  const [first] = group;
  if (!first || (group.length === 1 && !(compressing && isUncompressedChunk(first)))) return undefined;
  const items: ChecksummedFrame[] = [];
  for (const row of group) {
    const frames = unpackChecksummed(row);
    if (!frames) return undefined;
    items.push(...frames);
  }
  const body = joinBodies(items);
  const packed = compressing ? await compress(body) : { codec: RAW, body };
  if (group.length === 1 && packed.codec === RAW) return undefined;
  return packChecksummed(first.tape, first.first, items, packed);
}

/** Which of these rows are packed together, where the next ones begin, and whether there are more already. */
export interface PackingPlan<Row extends ChunkRow> {
  readonly groups: readonly Row[][];
  readonly from: number;
  readonly more: boolean;
}

/**
 * @param rows the rows of a tape, starting at the number `from`
 * @param more are there further rows after them?
 * @param all also pack what does not fill a run yet
 */
export function planPacking<Row extends ChunkRow>(
  rows: readonly Row[],
  from: number,
  more: boolean,
  all: boolean,
): PackingPlan<Row> {
  const groups = groupChunks(rows);
  const last = groups.at(-1);
  // A group that is not full yet goes on with the rows that follow.
  const open = last && !isFull(last) && (more ? groups.length > 1 : !all) ? groups.pop() : undefined;
  const end = rows.at(-1);
  return { groups, from: open?.[0]?.first ?? (end ? end.first + end.count : from), more };
}
