/** Packs neighbouring chunks of a tape into larger ones. */
import { type ChecksummedFrame, type ChunkRow, joinBodies, packChecksummed, unpackChecksummed } from "./chunk-codec.js";
import { groupChunks, isFull, isUncompressedChunk } from "./chunk-groups.js";
import { compress, isCompressed, RAW } from "./compression.js";

/**
 * Packs a group of chunks into one. Returns `undefined` if they stay as they are: a single chunk is only compressed, if it is
 * large and not compressed yet, and a damaged item is never packed again under a new checksum.
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
  const joined = joinBodies(items);
  const packed = compressing && joined.codec === RAW ? await compress(joined.body) : joined;
  if (group.length === 1 && !isCompressed(packed.codec)) return undefined;
  return packChecksummed(first.tape, first.first, items, packed);
}

/** How the chunks of a tape are packed. */
export interface PackingPlan<Row extends ChunkRow> {
  /** Each group becomes one chunk. */
  readonly groups: readonly Row[][];
  /** The item where packing continues. */
  readonly from: number;
  /** Whether there are already more chunks to pack. */
  readonly more: boolean;
}

/**
 * Plans how to pack chunks of a tape.
 *
 * @param rows the chunks of the tape, starting at the item `from`
 * @param more whether there are further chunks after `rows`
 * @param all also pack a group that does not fill a chunk yet
 */
export function planPacking<Row extends ChunkRow>(
  rows: readonly Row[],
  from: number,
  more: boolean,
  all: boolean,
): PackingPlan<Row> {
  const groups = groupChunks(rows);
  const last = groups.at(-1);
  // A group that is not full yet waits for the chunks that follow.
  const open = last && !isFull(last) && (more ? groups.length > 1 : !all) ? groups.pop() : undefined;
  const end = rows.at(-1);
  return { groups, from: open?.[0]?.first ?? (end ? end.first + end.count : from), more };
}
