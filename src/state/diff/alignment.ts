/** Aligns two lists of keys by a common subsequence of the greatest weight. */
import { addToList } from "../../util/index.js";

/**
 * Aligns two lists of keys: pairs of indexes with equal keys, ascending on both sides, of the greatest total weight. A key that
 * occurs several times is matched in the order of its occurrences. O(n log n).
 *
 * @param weightOf the weight of the key at an index of `a`
 */
export function alignKeys(
  a: readonly string[],
  b: readonly string[],
  weightOf: (place: number) => number = () => 1,
): [number, number][] {
  const shared = Math.min(a.length, b.length);
  let start = 0;
  while (start < shared && a[start] === b[start]) start++;
  let tail = 0;
  while (tail < shared - start && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;

  const places = new Map<string, number[]>();
  for (let at = b.length - tail - 1; at >= start; at--) addToList(places, b[at] as string, at);
  const pairs: [number, number][] = [];
  for (let at = start; at < a.length - tail; at++) {
    const match = places.get(a[at] as string)?.pop();
    if (match !== undefined) pairs.push([at, match]);
  }
  const head = Array.from({ length: start }, (_, at): [number, number] => [at, at]);
  const rest = Array.from({ length: tail }, (_, at): [number, number] => [a.length - tail + at, b.length - tail + at]);
  return [...head, ...heaviestRising(pairs, weightOf), ...rest];
}

/** Of pairs that ascend on the first side, the heaviest selection that ascends on the second side as well. */
function heaviestRising(pairs: readonly [number, number][], weightOf: (place: number) => number): [number, number][] {
  const ranks = new Map(
    [
      ...pairs
        .map(([, place]) => place)
        .sort((a, b) => a - b)
        .entries(),
    ].map(([rank, place]) => [place, rank + 1]),
  );
  const totals: number[] = [];
  const previous: number[] = [];
  // A Fenwick tree over the ranks: each entry is the end of the heaviest chain in the range that it covers.
  const ends = Array.from<number>({ length: pairs.length + 1 }).fill(-1);
  const heavier = (x: number, y: number): number => ((totals[y] ?? 0) > (totals[x] ?? 0) ? y : x);
  for (const [at, [place, match]] of pairs.entries()) {
    const rank = ranks.get(match) as number;
    let before = -1;
    for (let index = rank - 1; index > 0; index -= index & -index) before = heavier(before, ends[index] as number);
    previous.push(before);
    totals.push((totals[before] ?? 0) + weightOf(place));
    for (let index = rank; index < ends.length; index += index & -index)
      ends[index] = heavier(ends[index] as number, at);
  }
  let end = -1;
  for (let at = 0; at < pairs.length; at++) end = heavier(end, at);
  const chosen: [number, number][] = [];
  for (; end >= 0; end = previous[end] as number) chosen.push(pairs[end] as [number, number]);
  return chosen.reverse();
}
