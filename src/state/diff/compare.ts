/**
 * The walk over two stored states, side by side, in the form in which they are stored.
 *
 * What both point at, by address, is never read; of two lists only the elements that one of them does not have are. The
 * result says what becomes what; whether two parts that were not taken apart really differ is left to who decodes them.
 */
import {
  alignKeys,
  cutAtSameBounds,
  expandSpans,
  spanKey,
  type ElementSpan,
  spansOfForm,
  sharedKeys,
} from "./alignment.js";
import {
  type FrameTree,
  parseFrame,
  readStoredItems,
  type StoredItem,
  type ReadTask,
  runTogether,
  PartRef,
} from "../codec/index.js";
import { type Path, type ShadowObject, tagOf, type TreeForm } from "../tree/index.js";

/** A part of a state, as it is stored, and where in its state it stands. */
export interface StatePart {
  readonly tree: FrameTree;
  readonly path: Path | undefined;
}

/** How a part of one state becomes a part of the other. */
export type Delta =
  /** `count` elements of an array stay as they are. */
  | { readonly op: "same"; readonly count: number }
  | { readonly op: "add"; readonly value: StatePart }
  | { readonly op: "remove"; readonly before: StatePart }
  /** Only if they differ once they are read. */
  | { readonly op: "replace"; readonly before: StatePart; readonly value: StatePart }
  | { readonly op: "members"; readonly members: readonly (readonly [key: string, delta: Delta])[] }
  | { readonly op: "elements"; readonly elements: readonly Delta[] };

const SAME: Delta = { op: "same", count: 1 };

/** How `a` becomes `b`. */
export function* compare(a: StatePart, b: StatePart): ReadTask<Delta> {
  if (isSurelySame(a.tree, b.tree)) return SAME;
  const [before, value] = yield* both(open(a), open(b));
  const whole: Delta = { op: "replace", before, value };
  const ours = viewOf(before);
  const theirs = viewOf(value);
  if (ours.kind !== theirs.kind) return whole;
  switch (ours.kind) {
    case "array":
      return yield* compareElements(ours, theirs);
    case "object":
    case "dict":
    case "map":
      return (yield* compareEntries(ours, theirs)) ?? whole;
    default:
      return whole;
  }
}

/** What a part is, with its elements or its `[key, value]` pairs: inline, or as ranges of items. */
interface View {
  readonly kind: string;
  readonly content: readonly FrameTree[] | TreeForm;
  readonly path: Path | undefined;
}

function viewOf({ tree, path }: StatePart): View {
  const view = (kind: string, content: View["content"] = []): View => ({ kind, content, path });
  if (typeof tree !== "object" || tree === null) return view(tree === null ? "null" : typeof tree);
  if (Array.isArray(tree)) return view("array", tree);
  if (tree instanceof PartRef) {
    if (typeof tree.location === "string") return view("bytes");
    return tree.kind === "text" ? view("string") : view(tree.kind, tree.location);
  }
  const tag = tagOf(tree as ShadowObject) as [string, FrameTree?] | undefined;
  if (!tag) return view("object", Object.entries(tree));
  return view(tag[0], Array.isArray(tag[1]) ? tag[1] : []);
}

/** Are they the same for all that can be said without reading? */
function isSurelySame(a: FrameTree, b: FrameTree): boolean {
  if (typeof a !== "object" || a === null || typeof b !== "object" || b === null) return a === b;
  if (a instanceof PartRef || b instanceof PartRef) {
    if (!(a instanceof PartRef && b instanceof PartRef) || a.kind !== b.kind) return false;
    return contentKey(a) === contentKey(b);
  }
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const [ours, theirs] = [a as Record<string, FrameTree>, b as Record<string, FrameTree>];
  const keys = Object.keys(ours);
  if (keys.length !== Object.keys(theirs).length) return false;
  return keys.every(
    (key) => Object.hasOwn(theirs, key) && isSurelySame(ours[key] as FrameTree, theirs[key] as FrameTree),
  );
}

/** A text that only what is the same in all respects has. */
function contentKey(tree: FrameTree): string {
  return JSON.stringify(tree, (_, part: unknown) => (part instanceof PartRef ? [part.kind, part.location] : part));
}

/** Reads what only says how it is stored, up to the value itself. */
function* open(part: StatePart): ReadTask<StatePart> {
  let { tree } = part;
  while (tree instanceof PartRef && (tree.kind === "value" || tree.kind === "dense")) {
    const items = yield* readRuns(spansOfForm(tree.location as TreeForm), part.path);
    if (tree.kind === "dense") tree = JSON.parse(joinChunks(items)) as FrameTree;
    else tree = parseItem(items[0] as StoredItem);
  }
  return { tree, path: part.path };
}

function* compareElements(a: View, b: View): ReadTask<Delta> {
  if (isInline(a.content) || isInline(b.content)) {
    return { op: "elements", elements: yield* compareGap(...(yield* both(elementsOf(a), elementsOf(b)))) };
  }
  const [ours, theirs] = yield* cutAtSameBounds({ form: a.content, path: a.path }, { form: b.content, path: b.path });
  const sizeOf = (at: number): number => (ours[at] as ElementSpan).size;
  const kept = alignKeys(ours.map(spanKey), theirs.map(spanKey), sizeOf);
  const [oldPlaces, newPlaces] = [placesOf(ours), placesOf(theirs)];
  const gaps = gapsBetween(kept, ours.length, theirs.length).map(function* (gap): ReadTask<Delta[]> {
    const olds = readElements(ours.slice(...gap.old), a.path, oldPlaces[gap.old[0]]);
    const news = readElements(theirs.slice(...gap.new), b.path, newPlaces[gap.new[0]]);
    return yield* compareGap(...(yield* both(olds, news)));
  });
  return { op: "elements", elements: interleave(yield* runTogether(gaps), kept, sizeOf) };
}

/** Elements that have no counterpart by address: matched by content first, then in order. */
function* compareGap(olds: readonly StatePart[], news: readonly StatePart[]): ReadTask<Delta[]> {
  const keysOf = (parts: readonly StatePart[]): string[] => parts.map((part) => contentKey(part.tree));
  const kept = olds.length && news.length ? alignKeys(keysOf(olds), keysOf(news)) : [];
  const gaps = gapsBetween(kept, olds.length, news.length).map(function* (gap): ReadTask<Delta[]> {
    const before = olds.slice(...gap.old);
    const after = news.slice(...gap.new);
    const pairs = Math.min(before.length, after.length);
    return [
      ...(yield* runTogether(before.slice(0, pairs).map((part, index) => compare(part, after[index] as StatePart)))),
      ...before.slice(pairs).map((part): Delta => ({ op: "remove", before: part })),
      ...after.slice(pairs).map((part): Delta => ({ op: "add", value: part })),
    ];
  });
  return interleave(yield* runTogether(gaps), kept, () => 1);
}

/** What lies before, between and after the kept pairs: one gap more than there are pairs. */
function gapsBetween(kept: readonly [number, number][], oldEnd: number, newEnd: number): Gap[] {
  let from: [number, number] = [0, 0];
  return [...kept, [oldEnd, newEnd] as const].map(([old, fresh]): Gap => {
    const gap: Gap = { old: [from[0], old], new: [from[1], fresh] };
    from = [old + 1, fresh + 1];
    return gap;
  });
}

interface Gap {
  readonly old: readonly [from: number, to: number];
  readonly new: readonly [from: number, to: number];
}

function interleave(
  gaps: readonly Delta[][],
  kept: readonly [number, number][],
  sizeOf: (at: number) => number,
): Delta[] {
  return gaps.flatMap((gap, index): Delta[] => {
    const pair = kept[index];
    return pair ? [...gap, { op: "same", count: sizeOf(pair[0]) }] : gap;
  });
}

/** `undefined` where keys cannot say what differs: in a Map, an entry whose key is not a string. */
function* compareEntries(a: View, b: View): ReadTask<Delta | undefined> {
  const [olds, news] = yield* unsharedEntries(a, b);
  if (!olds || !news) return undefined;
  const compared = yield* runTogether(
    [...olds].map(function* ([key, before]): ReadTask<readonly [string, Delta]> {
      const value = news.get(key);
      return [key, value ? yield* compare(before, value) : { op: "remove", before }];
    }),
  );
  const added = [...news].filter(([key]) => !olds.has(key));
  return {
    op: "members",
    members: [...compared, ...added.map(([key, value]) => [key, { op: "add", value }] as const)],
  };
}

type Entries = Map<string, StatePart>;

function* unsharedEntries(a: View, b: View): ReadTask<[Entries | undefined, Entries | undefined]> {
  let pairs: [readonly FrameTree[], readonly FrameTree[]];
  if (isInline(a.content) || isInline(b.content)) pairs = yield* both(pairsOf(a), pairsOf(b));
  else {
    const [ours, theirs] = yield* cutAtSameBounds({ form: a.content, path: a.path }, { form: b.content, path: b.path });
    const shared = sharedKeys(ours, theirs);
    const rest = (runs: readonly ElementSpan[]): ElementSpan[] => runs.filter((run) => !shared.has(spanKey(run)));
    const [olds, news] = yield* both(readRuns(rest(ours), a.path), readRuns(rest(theirs), b.path));
    pairs = [olds.map(parseItem), news.map(parseItem)];
  }
  const [olds, news] = withoutEqual(...pairs);
  return yield* both(entriesOf(olds, a.path), entriesOf(news, b.path));
}

/** Both without the pairs that are equal. Each goes with one other: a Map may have several keys of equal content. */
function withoutEqual(a: readonly FrameTree[], b: readonly FrameTree[]): [FrameTree[], FrameTree[]] {
  const waiting = new Map<string, FrameTree[]>();
  for (const part of b) {
    const key = contentKey(part);
    const equal = waiting.get(key);
    if (equal) equal.push(part);
    else waiting.set(key, [part]);
  }
  const olds = a.filter((part) => !waiting.get(contentKey(part))?.pop());
  return [olds, [...waiting.values()].flat()];
}

function* entriesOf(pairs: readonly FrameTree[], path: Path | undefined): ReadTask<Entries | undefined> {
  const opened = yield* runTogether(
    pairs.map(function* (pair): ReadTask<[FrameTree, FrameTree]> {
      // The pair of a Map is a list of its own where it is large, and so is its key.
      const [key, value] = (yield* pairsOf(viewOf({ tree: pair, path }))) as [FrameTree, FrameTree];
      if (!(key instanceof PartRef && key.kind === "text")) return [key, value];
      return [joinChunks(yield* readRuns(spansOfForm(key.location as TreeForm), path)), value];
    }),
  );
  const entries: Entries = new Map();
  for (const [key, parsed] of opened) {
    if (typeof key !== "string") return undefined;
    entries.set(key, { tree: parsed, path: { parent: path, key } });
  }
  return entries;
}

function* pairsOf({ content, path }: View): ReadTask<readonly FrameTree[]> {
  return isInline(content) ? content : (yield* readRuns(spansOfForm(content), path)).map(parseItem);
}

function* elementsOf({ content, path }: View): ReadTask<StatePart[]> {
  if (!isInline(content)) return yield* readElements(spansOfForm(content), path);
  return content.map((parsed, index) => ({ tree: parsed, path: { parent: path, key: index } }));
}

/** Elements of an array, of which the first stands at `from`. */
function* readElements(runs: readonly ElementSpan[], path: Path | undefined, from = 0): ReadTask<StatePart[]> {
  const pathOf = (index: number): Path => ({ parent: path, key: from + index });
  const items = yield* readStoredItems(yield* expandSpans(runs, path), pathOf);
  return items.map((item, index) => ({ tree: parseItem(item), path: pathOf(index) }));
}

/** Parts that have no place of their own in the state: entries, whose keys are unknown before they are read, and chunks. */
function* readRuns(runs: readonly ElementSpan[], path: Path | undefined): ReadTask<StoredItem[]> {
  return yield* readStoredItems(yield* expandSpans(runs, path), () => path);
}

/** At which element each run begins, and where the last one ends. */
function placesOf(runs: readonly ElementSpan[]): number[] {
  let at = 0;
  return [0, ...runs.map((run) => (at += run.size))];
}

function isInline(content: View["content"]): content is readonly FrameTree[] {
  return Array.isArray(content);
}

function parseItem({ frame, tape }: StoredItem): FrameTree {
  return parseFrame(frame, tape);
}

function joinChunks(items: readonly StoredItem[]): string {
  return items.map(({ frame }) => JSON.parse(frame.json) as string).join("");
}

function* both<T>(a: ReadTask<T>, b: ReadTask<T>): ReadTask<[T, T]> {
  return (yield* runTogether([a, b])) as [T, T];
}
