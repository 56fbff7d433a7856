/**
 * Finds the common parts of two stored lists by their addresses, without reading them.
 *
 * The lists are cut into spans such that a span of one list is either a span of the other list or shares no item with it.
 * Node items that both lists refer to are not read; the others are expanded level by level.
 */
import { parseNode, readStoredItems, type ReadTask, runTogether } from "../codec/index.js";
import type { Path, TreeForm } from "../tree/index.js";

/** Consecutive elements of a list: a range of items on a tape, or one node item that represents all elements below it. */
export interface ElementSpan {
  readonly tape: number;
  readonly start: number;
  readonly count: number;
  /** 0 for elements, else the level of the node item above them. */
  readonly level: number;
  /** The number of elements. */
  readonly size: number;
}

/** A list that is stored as items, and its path in the state. */
export interface StoredList {
  readonly form: TreeForm;
  readonly path: Path | undefined;
}

/** Cuts two lists into spans at the same bounds. Only node items that are not shared are read. */
export function* cutAtSameBounds(a: StoredList, b: StoredList): ReadTask<[ElementSpan[], ElementSpan[]]> {
  let ours = spansOfForm(a.form);
  let theirs = spansOfForm(b.form);
  for (let level = Math.max(a.form.level, b.form.level); level > 0; level--) {
    const shared = sharedKeys(ours, theirs);
    const open = (span: ElementSpan): boolean => span.level === level && !shared.has(spanKey(span));
    [ours, theirs] = (yield* runTogether([openNodes(ours, open, a.path), openNodes(theirs, open, b.path)])) as [
      ElementSpan[],
      ElementSpan[],
    ];
  }
  const cuts = cutsOf([...ours, ...theirs]);
  return [ours.flatMap((span) => cut(span, cuts)), theirs.flatMap((span) => cut(span, cuts))];
}

/** Expands all nodes among some spans to spans of elements. */
export function* expandSpans(spans: readonly ElementSpan[], path: Path | undefined): ReadTask<ElementSpan[]> {
  let opened = [...spans];
  while (opened.some((span) => span.level > 0)) opened = yield* openNodes(opened, (span) => span.level > 0, path);
  return opened;
}

/** The spans of a list as it is in its frame. */
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

/** The key of a span. Equal keys mean equal spans if both are cut at the same bounds. */
export function spanKey(span: ElementSpan): string {
  return `${span.tape}:${span.start}`;
}

/** The keys that two lists have in common. */
export function sharedKeys(a: readonly ElementSpan[], b: readonly ElementSpan[]): Set<string> {
  const ours = new Set(a.map(spanKey));
  return new Set(b.map(spanKey).filter((key) => ours.has(key)));
}

/** Replaces the chosen nodes by the spans below them. */
function* openNodes(
  spans: readonly ElementSpan[],
  choose: (span: ElementSpan) => boolean,
  path: Path | undefined,
): ReadTask<ElementSpan[]> {
  const chosen = spans.filter(choose);
  const items = yield* readStoredItems(chosen, () => path);
  const below = new Map(
    items.map(({ frame, tape }, index) => [chosen[index] as ElementSpan, spansOfForm(parseNode(frame, tape))]),
  );
  return spans.flatMap((span) => below.get(span) ?? [span]);
}

/** The starts and ends of all spans, ascending, by tape. */
function cutsOf(spans: readonly ElementSpan[]): Map<number, number[]> {
  const cuts = new Map<number, Set<number>>();
  for (const { tape, start, count } of spans) {
    const places = cuts.get(tape) ?? new Set();
    cuts.set(tape, places.add(start).add(start + count));
  }
  return new Map([...cuts].map(([tape, places]) => [tape, [...places].sort((a, b) => a - b)]));
}

function cut(span: ElementSpan, cuts: ReadonlyMap<number, readonly number[]>): ElementSpan[] {
  if (span.level > 0) return [span];
  const places = cuts.get(span.tape) ?? [];
  const parts: ElementSpan[] = [];
  for (let at = firstAbove(places, span.start), start = span.start; start < span.start + span.count; at++) {
    const end = places[at] as number;
    parts.push({ ...span, start, count: end - start, size: end - start });
    start = end;
  }
  return parts;
}

/** The index of the first of some ascending numbers that is above `limit`. */
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
