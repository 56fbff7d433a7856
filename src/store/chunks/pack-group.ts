/** Packing rows of items that stand side by side into one. */
import { compress, RAW } from "./compression.js";
import { joinBodies, packSummed, type RunRow, type SummedFrame, unpackSummed } from "./chunk-codec.js";
import { groupRows, isFull, isLargeAndRaw } from "./chunk-groups.js";

/**
 * The row that takes the place of these; `undefined` where there is none. A row alone is only compressed, where it is
 * large and is not compressed yet. A damaged item is never packed again under a fresh checksum: all stay as they are.
 */
export async function packGroup(group: readonly RunRow[], compressing: boolean): Promise<RunRow | undefined> {
  const [first] = group;
  if (!first || (group.length === 1 && !(compressing && isLargeAndRaw(first)))) return undefined;
  const items: SummedFrame[] = [];
  for (const row of group) {
    const frames = unpackSummed(row);
    if (!frames) return undefined;
    items.push(...frames);
  }
  const body = joinBodies(items);
  const packed = compressing ? await compress(body) : { codec: RAW, body };
  if (group.length === 1 && packed.codec === RAW) return undefined;
  return packSummed(first.tape, first.first, items, packed);
}

/** Which of these rows are packed together, where the next ones begin, and whether there are more already. */
export interface Sealing<Row extends RunRow> {
  readonly groups: readonly Row[][];
  readonly from: number;
  readonly more: boolean;
}

/**
 * @param rows the rows of a tape, starting at the number `from`
 * @param more are there further rows after them?
 * @param all also pack what does not fill a run yet
 */
export function planSealing<Row extends RunRow>(
  rows: readonly Row[],
  from: number,
  more: boolean,
  all: boolean,
): Sealing<Row> {
  const groups = groupRows(rows);
  const last = groups.at(-1);
  // A group that is not full yet goes on with the rows that follow.
  const open = last && !isFull(last) && (more ? groups.length > 1 : !all) ? groups.pop() : undefined;
  const end = rows.at(-1);
  return { groups, from: open?.[0]?.first ?? (end ? end.first + end.count : from), more };
}
