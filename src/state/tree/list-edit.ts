/** Edits of a list: which old elements the new ones equal, and the replacement of a range of elements. */
import { addToList } from "../../util/index.js";
import type { StoredValue } from "./recorded-values.js";
import type { Piece } from "./refs.js";
import type { ListEntry, ListNode, Shadow, SplicePart } from "./shadow.js";
import { signatureOf } from "./signature.js";

/** How many old elements with the signature of a new one are compared with it. */
const MAX_CANDIDATES = 16;

/** A range of indexes, excluding `end`. */
export interface Range {
  readonly start: number;
  readonly end: number;
}

/**
 * Finds, for each new element of a range, an old element that it equals, wherever that was.
 *
 * No old element is used twice, because two places that share one shadow would change together. A missed match costs
 * bytes, never correctness, so the search among elements with equal signatures is bounded.
 *
 * @param isSame whether the old element at `at` equals the new one at `index`
 * @returns for each new element the index of the old one, or -1
 */
export function matchElements(
  old: readonly Shadow[],
  oldRange: Range,
  values: readonly unknown[],
  newRange: Range,
  isSame: (at: number, index: number) => boolean,
): number[] {
  const used = new Set<number>();
  let candidates: Map<unknown, number[]> | undefined;
  // Most elements follow the one that they followed before.
  let next = oldRange.start;
  const find = (index: number): number => {
    if (next < oldRange.end && !used.has(next) && isSame(next, index)) return next;
    if (oldRange.start === oldRange.end) return -1;
    candidates ??= indexBySignature(old, oldRange);
    const places = candidates.get(signatureOf(values[index])) ?? [];
    while (places.length > 0 && used.has(places.at(-1) as number)) places.pop();
    const last = Math.max(0, places.length - MAX_CANDIDATES);
    for (let candidate = places.length - 1; candidate >= last; candidate--) {
      const at = places[candidate] as number;
      if (!used.has(at) && isSame(at, index)) return at;
    }
    return -1;
  };
  const matches: number[] = [];
  for (let index = newRange.start; index < newRange.end; index++) {
    const at = find(index);
    if (at >= 0) {
      used.add(at);
      next = at + 1;
    }
    matches.push(at);
  }
  return matches;
}

/** The indexes of the elements of a range by signature, in descending order, so that the first one is at the end. */
function indexBySignature(elements: readonly Shadow[], { start, end }: Range): Map<unknown, number[]> {
  const places = new Map<unknown, number[]>();
  for (let at = end - 1; at >= start; at--) addToList(places, signatureOf(elements[at]), at);
  return places;
}

/** One element of the replacement. An element that is neither kept nor stored is new. */
interface Entry extends ListEntry {
  readonly size: number;
  /** The item that a shared element is stored in. */
  readonly piece?: Piece;
}

/** Collects the replacement of the elements `start` to `end` of a list and applies it in one operation. */
export class ListEdit {
  readonly #list: ListNode;
  readonly #range: Range;
  readonly #entries: Entry[] = [];

  constructor(list: ListNode, range: Range) {
    this.#list = list;
    this.#range = range;
  }

  /** Keeps an old element and its item. */
  keep(at: number): void {
    const { elements, keys } = this.#list;
    const size = this.#list.sizeOf(at);
    this.#entries.push({ element: elements[at] as Shadow, key: keys?.[at], size, keptFrom: at });
  }

  /** Adds a new element, which is written as an item when the list is encoded. */
  add(element: Shadow, key?: string): void {
    this.#entries.push({ element, key, size: 0 });
  }

  /** Adds an element that is already stored as an item. */
  share({ shadow, piece, bytes }: StoredValue): void {
    this.#entries.push({ element: shadow, key: undefined, size: bytes, piece });
  }

  apply(): void {
    const { start, end } = this.#range;
    const parts = partsOf(this.#entries, start, this.#list);
    const sizes = this.#entries.map(({ size }) => size);
    this.#list.replace(start, end, this.#entries);
    this.#list.splice(start, end, sizes, parts);
  }
}

/** Groups consecutive entries: new ones into one range of new items, kept neighbours into their ranges of old items. */
function partsOf(entries: readonly Entry[], start: number, list: ListNode): SplicePart[] {
  const parts: SplicePart[] = [];
  for (let index = 0, count = 1; index < entries.length; index += count, count = 1) {
    const { keptFrom, piece } = entries[index] as Entry;
    if (piece) parts.push({ pieces: [piece] });
    else if (keptFrom === undefined) {
      while (isNew(entries[index + count])) count++;
      parts.push({ from: start + index, count });
    } else {
      while (entries[index + count]?.keptFrom === keptFrom + count) count++;
      parts.push({ pieces: list.tree.slice(keptFrom, count) });
    }
  }
  return parts;
}

function isNew(entry: Entry | undefined): boolean {
  return entry !== undefined && entry.keptFrom === undefined && entry.piece === undefined;
}
