/**
 * The walk over two stored states, side by side, in the form in which they are stored.
 *
 * What both point at, by address, is never read; of two lists only the elements that one of them does not have are. The
 * result says what becomes what; whether two parts that were not taken apart really differ is left to who decodes them.
 */
import { alignKeys, cutAlike, elementRuns, keyOfRun, type Run, runsOf, sharedKeys } from "./alignment.js";
import { type Parsed, parseFrame, readItems, type StoredItem, type Task, together, Unread } from "../codec/index.js";
import { type Path, type ShadowObject, tagOf, type TreeForm } from "../tree/index.js";

/** A part of a state, as it is stored, and where in its state it stands. */
export interface Part {
  readonly parsed: Parsed;
  readonly path: Path | undefined;
}

/** How a part of one state becomes a part of the other. */
export type Delta =
  /** `count` elements of an array stay as they are. */
  | { readonly op: "same"; readonly count: number }
  | { readonly op: "add"; readonly value: Part }
  | { readonly op: "remove"; readonly before: Part }
  /** Only if they differ once they are read. */
  | { readonly op: "replace"; readonly before: Part; readonly value: Part }
  | { readonly op: "members"; readonly members: readonly (readonly [key: string, delta: Delta])[] }
  | { readonly op: "elements"; readonly elements: readonly Delta[] };

const SAME: Delta = { op: "same", count: 1 };

/** How `a` becomes `b`. */
export function* compare(a: Part, b: Part): Task<Delta> {
  if (isSurelySame(a.parsed, b.parsed)) return SAME;
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
  readonly content: readonly Parsed[] | TreeForm;
  readonly path: Path | undefined;
}

function viewOf({ parsed, path }: Part): View {
  const view = (kind: string, content: View["content"] = []): View => ({ kind, content, path });
  if (typeof parsed !== "object" || parsed === null) return view(parsed === null ? "null" : typeof parsed);
  if (Array.isArray(parsed)) return view("array", parsed);
  if (parsed instanceof Unread) {
    if (typeof parsed.at === "string") return view("bytes");
    return parsed.kind === "text" ? view("string") : view(parsed.kind, parsed.at);
  }
  const tag = tagOf(parsed as ShadowObject) as [string, Parsed?] | undefined;
  if (!tag) return view("object", Object.entries(parsed));
  return view(tag[0], Array.isArray(tag[1]) ? tag[1] : []);
}

/** Are they the same for all that can be said without reading? */
function isSurelySame(a: Parsed, b: Parsed): boolean {
  if (typeof a !== "object" || a === null || typeof b !== "object" || b === null) return a === b;
  if (a instanceof Unread || b instanceof Unread) {
    if (!(a instanceof Unread && b instanceof Unread) || a.kind !== b.kind) return false;
    return contentKey(a) === contentKey(b);
  }
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const [ours, theirs] = [a as Record<string, Parsed>, b as Record<string, Parsed>];
  const keys = Object.keys(ours);
  if (keys.length !== Object.keys(theirs).length) return false;
  return keys.every((key) => Object.hasOwn(theirs, key) && isSurelySame(ours[key] as Parsed, theirs[key] as Parsed));
}

/** A text that only what is the same in all respects has. */
function contentKey(parsed: Parsed): string {
  return JSON.stringify(parsed, (_, part: unknown) => (part instanceof Unread ? [part.kind, part.at] : part));
}

/** Reads what only says how it is stored, up to the value itself. */
function* open(part: Part): Task<Part> {
  let { parsed } = part;
  while (parsed instanceof Unread && (parsed.kind === "value" || parsed.kind === "dense")) {
    const items = yield* readRuns(runsOf(parsed.at as TreeForm), part.path);
    if (parsed.kind === "dense") parsed = JSON.parse(joinChunks(items)) as Parsed;
    else parsed = parseItem(items[0] as StoredItem);
  }
  return { parsed, path: part.path };
}

function* compareElements(a: View, b: View): Task<Delta> {
  if (isInline(a.content) || isInline(b.content)) {
    return { op: "elements", elements: yield* compareGap(...(yield* both(elementsOf(a), elementsOf(b)))) };
  }
  const [ours, theirs] = yield* cutAlike({ form: a.content, path: a.path }, { form: b.content, path: b.path });
  const sizeOf = (at: number): number => (ours[at] as Run).size;
  const kept = alignKeys(ours.map(keyOfRun), theirs.map(keyOfRun), sizeOf);
  const [oldPlaces, newPlaces] = [placesOf(ours), placesOf(theirs)];
  const gaps = gapsBetween(kept, ours.length, theirs.length).map(function* (gap): Task<Delta[]> {
    const olds = readElements(ours.slice(...gap.old), a.path, oldPlaces[gap.old[0]]);
    const news = readElements(theirs.slice(...gap.new), b.path, newPlaces[gap.new[0]]);
    return yield* compareGap(...(yield* both(olds, news)));
  });
  return { op: "elements", elements: interleave(yield* together(gaps), kept, sizeOf) };
}

/** Elements that have no counterpart by address: matched by content first, then in order. */
function* compareGap(olds: readonly Part[], news: readonly Part[]): Task<Delta[]> {
  const keysOf = (parts: readonly Part[]): string[] => parts.map((part) => contentKey(part.parsed));
  const kept = olds.length && news.length ? alignKeys(keysOf(olds), keysOf(news)) : [];
  const gaps = gapsBetween(kept, olds.length, news.length).map(function* (gap): Task<Delta[]> {
    const before = olds.slice(...gap.old);
    const after = news.slice(...gap.new);
    const pairs = Math.min(before.length, after.length);
    return [
      ...(yield* together(before.slice(0, pairs).map((part, index) => compare(part, after[index] as Part)))),
      ...before.slice(pairs).map((part): Delta => ({ op: "remove", before: part })),
      ...after.slice(pairs).map((part): Delta => ({ op: "add", value: part })),
    ];
  });
  return interleave(yield* together(gaps), kept, () => 1);
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
function* compareEntries(a: View, b: View): Task<Delta | undefined> {
  const [olds, news] = yield* unsharedEntries(a, b);
  if (!olds || !news) return undefined;
  const compared = yield* together(
    [...olds].map(function* ([key, before]): Task<readonly [string, Delta]> {
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

type Entries = Map<string, Part>;

function* unsharedEntries(a: View, b: View): Task<[Entries | undefined, Entries | undefined]> {
  let pairs: [readonly Parsed[], readonly Parsed[]];
  if (isInline(a.content) || isInline(b.content)) pairs = yield* both(pairsOf(a), pairsOf(b));
  else {
    const [ours, theirs] = yield* cutAlike({ form: a.content, path: a.path }, { form: b.content, path: b.path });
    const shared = sharedKeys(ours, theirs);
    const rest = (runs: readonly Run[]): Run[] => runs.filter((run) => !shared.has(keyOfRun(run)));
    const [olds, news] = yield* both(readRuns(rest(ours), a.path), readRuns(rest(theirs), b.path));
    pairs = [olds.map(parseItem), news.map(parseItem)];
  }
  const [olds, news] = withoutEqual(...pairs);
  return yield* both(entriesOf(olds, a.path), entriesOf(news, b.path));
}

/** Both without the pairs that are equal. Each goes with one other: a Map may have several keys of equal content. */
function withoutEqual(a: readonly Parsed[], b: readonly Parsed[]): [Parsed[], Parsed[]] {
  const waiting = new Map<string, Parsed[]>();
  for (const part of b) {
    const key = contentKey(part);
    const equal = waiting.get(key);
    if (equal) equal.push(part);
    else waiting.set(key, [part]);
  }
  const olds = a.filter((part) => !waiting.get(contentKey(part))?.pop());
  return [olds, [...waiting.values()].flat()];
}

function* entriesOf(pairs: readonly Parsed[], path: Path | undefined): Task<Entries | undefined> {
  const opened = yield* together(
    pairs.map(function* (pair): Task<[Parsed, Parsed]> {
      // The pair of a Map is a list of its own where it is large, and so is its key.
      const [key, value] = (yield* pairsOf(viewOf({ parsed: pair, path }))) as [Parsed, Parsed];
      if (!(key instanceof Unread && key.kind === "text")) return [key, value];
      return [joinChunks(yield* readRuns(runsOf(key.at as TreeForm), path)), value];
    }),
  );
  const entries: Entries = new Map();
  for (const [key, parsed] of opened) {
    if (typeof key !== "string") return undefined;
    entries.set(key, { parsed, path: { parent: path, key } });
  }
  return entries;
}

function* pairsOf({ content, path }: View): Task<readonly Parsed[]> {
  return isInline(content) ? content : (yield* readRuns(runsOf(content), path)).map(parseItem);
}

function* elementsOf({ content, path }: View): Task<Part[]> {
  if (!isInline(content)) return yield* readElements(runsOf(content), path);
  return content.map((parsed, index) => ({ parsed, path: { parent: path, key: index } }));
}

/** Elements of an array, of which the first stands at `from`. */
function* readElements(runs: readonly Run[], path: Path | undefined, from = 0): Task<Part[]> {
  const pathOf = (index: number): Path => ({ parent: path, key: from + index });
  const items = yield* readItems(yield* elementRuns(runs, path), pathOf);
  return items.map((item, index) => ({ parsed: parseItem(item), path: pathOf(index) }));
}

/** Parts that have no place of their own in the state: entries, whose keys are unknown before they are read, and chunks. */
function* readRuns(runs: readonly Run[], path: Path | undefined): Task<StoredItem[]> {
  return yield* readItems(yield* elementRuns(runs, path), () => path);
}

/** At which element each run begins, and where the last one ends. */
function placesOf(runs: readonly Run[]): number[] {
  let at = 0;
  return [0, ...runs.map((run) => (at += run.size))];
}

function isInline(content: View["content"]): content is readonly Parsed[] {
  return Array.isArray(content);
}

function parseItem({ frame, tape }: StoredItem): Parsed {
  return parseFrame(frame, tape);
}

function joinChunks(items: readonly StoredItem[]): string {
  return items.map(({ frame }) => JSON.parse(frame.json) as string).join("");
}

function* both<T>(a: Task<T>, b: Task<T>): Task<[T, T]> {
  return (yield* together([a, b])) as [T, T];
}
