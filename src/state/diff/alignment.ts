/**
 * Which parts of two lists are the same, found by where they are stored and without reading them.
 *
 * The lists are cut into runs such that a run of one is either a run of the other or has no item in common with any.
 * Node items that both lists point at stay closed; the others are opened level by level.
 */
import { parseNode, readStoredItems, type ReadTask, runTogether } from "../codec/index.js";
import type { Path, TreeForm } from "../tree/index.js";

/** Items side by side on a tape; or one node item, which stands for all elements below it. */
export interface ElementSpan {
  readonly tape: number;
  readonly start: number;
  readonly count: number;
  /** 0 for elements, else how many levels of nodes there are above them. */
  readonly level: number;
  /** How many elements it stands for. */
  readonly size: number;
}

/** A list that is stored as items, and where in its state it stands. */
export interface StoredList {
  readonly form: TreeForm;
  readonly path: Path | undefined;
}

/** Both lists as runs, cut alike. Only node items that are not shared are read. */
export function* cutAtSameBounds(a: StoredList, b: StoredList): ReadTask<[ElementSpan[], ElementSpan[]]> {
  let ours = spansOfForm(a.form);
  let theirs = spansOfForm(b.form);
  for (let level = Math.max(a.form.level, b.form.level); level > 0; level--) {
    const shared = sharedKeys(ours, theirs);
    const open = (run: ElementSpan): boolean => run.level === level && !shared.has(spanKey(run));
    [ours, theirs] = (yield* runTogether([openNodes(ours, open, a.path), openNodes(theirs, open, b.path)])) as [
      ElementSpan[],
      ElementSpan[],
    ];
  }
  const cuts = cutsOf([...ours, ...theirs]);
  return [ours.flatMap((run) => cut(run, cuts)), theirs.flatMap((run) => cut(run, cuts))];
}

/** The ranges of all elements of some runs, with the nodes among them opened. */
export function* expandSpans(runs: readonly ElementSpan[], path: Path | undefined): ReadTask<ElementSpan[]> {
  let opened = [...runs];
  while (opened.some((run) => run.level > 0)) opened = yield* openNodes(opened, (run) => run.level > 0, path);
  return opened;
}

export function spansOfForm(form: TreeForm): ElementSpan[] {
  if (form.level === 0) return form.pieces.map((piece) => ({ ...piece, level: 0, size: piece.count }));
  const nodes: ElementSpan[] = [];
  for (const { tape, start, count } of form.pieces) {
    for (let item = start; item < start + count; item++) {
      nodes.push({ tape, start: item, count: 1, level: form.level, size: form.counts[nodes.length] ?? 0 });
    }
  }
  return nodes;
}

/** Equal for runs that are the same, once they are cut alike. */
export function spanKey(run: ElementSpan): string {
  return `${run.tape}:${run.start}`;
}

/** Those keys that both have. */
export function sharedKeys(a: readonly ElementSpan[], b: readonly ElementSpan[]): Set<string> {
  const ours = new Set(a.map(spanKey));
  return new Set(b.map(spanKey).filter((key) => ours.has(key)));
}

/**
 * Pairs of places at which `a` and `b` have equal keys, rising on both sides: of all ways to choose them one of the
 * greatest total weight (a key that occurs several times is matched in order of occurrence).
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
  for (let at = b.length - tail - 1; at >= start; at--) {
    const known = places.get(b[at] as string);
    if (known) known.push(at);
    else places.set(b[at] as string, [at]);
  }
  const pairs: [number, number][] = [];
  for (let at = start; at < a.length - tail; at++) {
    const match = places.get(a[at] as string)?.pop();
    if (match !== undefined) pairs.push([at, match]);
  }
  const head = Array.from({ length: start }, (_, at): [number, number] => [at, at]);
  const rest = Array.from({ length: tail }, (_, at): [number, number] => [a.length - tail + at, b.length - tail + at]);
  return [...head, ...heaviestRising(pairs, weightOf), ...rest];
}

/** Of pairs that rise on the first side, the heaviest choice that rises on the second as well. */
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
  // A Fenwick tree over the ranks: each entry is the end of the heaviest chain in the stretch that it covers.
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

/** The runs with the chosen nodes replaced by what is below them. */
function* openNodes(
  runs: readonly ElementSpan[],
  choose: (run: ElementSpan) => boolean,
  path: Path | undefined,
): ReadTask<ElementSpan[]> {
  const chosen = runs.filter(choose);
  const items = yield* readStoredItems(chosen, () => path);
  const below = new Map(
    items.map(({ frame, tape }, index) => [chosen[index] as ElementSpan, spansOfForm(parseNode(frame, tape))]),
  );
  return runs.flatMap((run) => below.get(run) ?? [run]);
}

/** Where runs begin and end on each tape, in order. */
function cutsOf(runs: readonly ElementSpan[]): Map<number, number[]> {
  const cuts = new Map<number, Set<number>>();
  for (const { tape, start, count } of runs) {
    const known = cuts.get(tape) ?? new Set();
    cuts.set(tape, known.add(start).add(start + count));
  }
  return new Map([...cuts].map(([tape, places]) => [tape, [...places].sort((a, b) => a - b)]));
}

function cut(run: ElementSpan, cuts: ReadonlyMap<number, readonly number[]>): ElementSpan[] {
  if (run.level > 0) return [run];
  const places = cuts.get(run.tape) ?? [];
  const parts: ElementSpan[] = [];
  for (let at = firstAbove(places, run.start), start = run.start; start < run.start + run.count; at++) {
    const end = places[at] as number;
    parts.push({ ...run, start, count: end - start, size: end - start });
    start = end;
  }
  return parts;
}

/** The index of the first number above `limit`, in ascending numbers. */
function firstAbove(numbers: readonly number[], limit: number): number {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((numbers[middle] as number) > limit) high = middle;
    else low = middle + 1;
  }
  return low;
}
