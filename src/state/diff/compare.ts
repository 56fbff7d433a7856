/**
 * Compares two states in their stored form.
 *
 * Parts with the same address in both states are never read. Of two lists, only elements that the other list does not have
 * are read. The result is a tree of differences whose leaves are not decoded yet: two leaves may turn out to be equal.
 */
import { addToList } from "../../util/index.js";
import {
  type FrameTree,
  parseFrame,
  parseStoredJson,
  parseStoredString,
  PartRef,
  type ReadTask,
  readStoredItems,
  runTogether,
  type StoredItem,
} from "../codec/index.js";
import { depthOfPath, type Path, type ShadowObject, tagOf, type TreeForm } from "../tree/index.js";
import { alignKeys } from "./alignment.js";
import { cutAtSameBounds, type ElementSpan, expandSpans, sharedKeys, spanKey, spansOfForm } from "./element-spans.js";

/** A part of a stored state, and its path. */
export interface StatePart {
  readonly tree: FrameTree;
  readonly path: Path | undefined;
}

/** The difference between a part of one state and a part of the other. */
export type Delta =
  /** `count` elements of an array are unchanged. */
  | { readonly op: "same"; readonly count: number }
  | { readonly op: "add"; readonly value: StatePart }
  | { readonly op: "remove"; readonly before: StatePart }
  /** A difference only if the decoded parts differ. */
  | { readonly op: "replace"; readonly before: StatePart; readonly value: StatePart }
  | { readonly op: "members"; readonly members: readonly (readonly [key: string, delta: Delta])[] }
  | { readonly op: "elements"; readonly elements: readonly Delta[] };

const SAME: Delta = { op: "same", count: 1 };

/** Compares two parts. */
export function* compare(a: StatePart, b: StatePart): ReadTask<Delta> {
  if (isCertainlySame(a.tree, b.tree)) return SAME;
  const [before, value] = yield* both(resolve(a), resolve(b));
  const replacement: Delta = { op: "replace", before, value };
  const ours = viewOf(before);
  const theirs = viewOf(value);
  if (ours.kind !== theirs.kind) return replacement;
  switch (ours.kind) {
    case "array":
      return yield* compareElements(ours, theirs);
    case "object":
    case "dict":
    case "map":
      return (yield* compareEntries(ours, theirs)) ?? replacement;
    default:
      return replacement;
  }
}

/** The kind of a part, and its elements or `[key, value]` pairs: inline, or as ranges of items. */
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

/** Whether two parts are certainly equal, found without reading items. */
function isCertainlySame(a: FrameTree, b: FrameTree): boolean {
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
    (key) => Object.hasOwn(theirs, key) && isCertainlySame(ours[key] as FrameTree, theirs[key] as FrameTree),
  );
}

/** A string that is equal only for trees with equal JSON and equal addresses. */
function contentKey(tree: FrameTree): string {
  return JSON.stringify(tree, (_, part: unknown) => (part instanceof PartRef ? [part.kind, part.location] : part));
}

/** Reads a part that is stored as one value, or as segments of its JSON, until its kind is known. */
function* resolve(part: StatePart): ReadTask<StatePart> {
  let { tree } = part;
  while (tree instanceof PartRef && (tree.kind === "value" || tree.kind === "dense")) {
    const items = yield* readSpans(spansOfForm(tree.location as TreeForm), part.path);
    if (tree.kind === "dense") tree = parseStoredJson(joinSegments(items), depthOfPath(part.path)) as FrameTree;
    else [tree = null] = parseItems(items.slice(0, 1), part.path);
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
  const [oldOffsets, newOffsets] = [offsetsOf(ours), offsetsOf(theirs)];
  const gaps = gapsBetween(kept, ours.length, theirs.length).map(function* (gap): ReadTask<Delta[]> {
    const olds = readElements(ours.slice(...gap.old), a.path, oldOffsets[gap.old[0]]);
    const news = readElements(theirs.slice(...gap.new), b.path, newOffsets[gap.new[0]]);
    return yield* compareGap(...(yield* both(olds, news)));
  });
  return { op: "elements", elements: interleave(yield* runTogether(gaps), kept, sizeOf) };
}

/** Compares elements that have no counterpart by address: matched by content first, then in order. */
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

/** The gaps before, between and after the kept pairs: one more than there are pairs. */
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

/** `undefined` if an entry of a Map that differs has a key that is not a string, so that it has no JSON pointer. */
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
    const rest = (spans: readonly ElementSpan[]): ElementSpan[] => spans.filter((span) => !shared.has(spanKey(span)));
    const [olds, news] = yield* both(readSpans(rest(ours), a.path), readSpans(rest(theirs), b.path));
    pairs = [parseItems(olds, a.path), parseItems(news, b.path)];
  }
  const [olds, news] = withoutEqual(...pairs);
  return yield* both(entriesOf(olds, a.path), entriesOf(news, b.path));
}

/** Removes equal pairs from both lists, one for one, because a Map may have several keys of equal content. */
function withoutEqual(a: readonly FrameTree[], b: readonly FrameTree[]): [FrameTree[], FrameTree[]] {
  const unmatched = new Map<string, FrameTree[]>();
  for (const part of b) addToList(unmatched, contentKey(part), part);
  const olds = a.filter((part) => !unmatched.get(contentKey(part))?.pop());
  return [olds, [...unmatched.values()].flat()];
}

function* entriesOf(pairs: readonly FrameTree[], path: Path | undefined): ReadTask<Entries | undefined> {
  const opened = yield* runTogether(
    pairs.map(function* (pair): ReadTask<[FrameTree, FrameTree]> {
      // A large pair of a Map is itself a list, and a large key is stored in segments.
      const [key, value] = (yield* pairsOf(viewOf({ tree: pair, path }))) as [FrameTree, FrameTree];
      if (!(key instanceof PartRef && key.kind === "text")) return [key, value];
      return [joinSegments(yield* readSpans(spansOfForm(key.location as TreeForm), path)), value];
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
  return isInline(content) ? content : parseItems(yield* readSpans(spansOfForm(content), path), path);
}

function* elementsOf({ content, path }: View): ReadTask<StatePart[]> {
  if (!isInline(content)) return yield* readElements(spansOfForm(content), path);
  return content.map((parsed, index) => ({ tree: parsed, path: { parent: path, key: index } }));
}

/** Reads elements of an array. @param from the index of the first one */
function* readElements(spans: readonly ElementSpan[], path: Path | undefined, from = 0): ReadTask<StatePart[]> {
  const pathOf = (index: number): Path => ({ parent: path, key: from + index });
  const items = yield* readStoredItems(yield* expandSpans(spans, path), pathOf);
  return parseItems(items, path).map((tree, index) => ({ tree, path: pathOf(index) }));
}

/** Reads items without a path of their own: entries, whose keys are unknown before they are read, and segments. */
function* readSpans(spans: readonly ElementSpan[], path: Path | undefined): ReadTask<StoredItem[]> {
  return yield* readStoredItems(yield* expandSpans(spans, path), () => path);
}

/** The index of the first element of each span, and the end of the last one. */
function offsetsOf(spans: readonly ElementSpan[]): number[] {
  let at = 0;
  return [0, ...spans.map((span) => (at += span.size))];
}

function isInline(content: View["content"]): content is readonly FrameTree[] {
  return Array.isArray(content);
}

/** @param path the path of the part that the items belong to */
function parseItems(items: readonly StoredItem[], path: Path | undefined): FrameTree[] {
  const depth = depthOfPath(path);
  return items.map(({ frame, tape }) => parseFrame(frame, tape, depth));
}

function joinSegments(items: readonly StoredItem[]): string {
  return items.map(({ frame }) => parseStoredString(frame.json)).join("");
}

function* both<T>(a: ReadTask<T>, b: ReadTask<T>): ReadTask<[T, T]> {
  return (yield* runTogether([a, b])) as [T, T];
}
