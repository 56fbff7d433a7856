/**
 * The shadow: a private copy of the last saved state, in the form in which it is stored.
 *
 * It is the encoded JSON tree itself: plain JSON stands for itself, an object with the single key `$` is a tagged value
 * (a Date, a Map, …), and nodes of the classes below stand where a part of the state lives in items of its own. Strings
 * are shared with the state it was made from, so comparing the two is mostly comparing pointers.
 *
 * A shadow is changed in place while a new state is compared with it. Whoever does that throws the shadow away when the
 * comparison or the commit fails.
 */
import { PieceTree } from "./piece-tree.js";
import type { Piece } from "./refs.js";

export type Shadow = null | boolean | number | string | ShadowArray | ShadowObject | StoredNode;
export type ShadowArray = Shadow[];
export interface ShadowObject {
  [key: string]: Shadow;
}
export type StoredNode = ListNode | TextNode | ValueNode | BlobNode;

/** The key that marks a tagged value. A caller's object that has it is stored as the tag `object`. */
export const TAG = "$";

export type ListKind = "array" | "set" | "map" | "object" | "dict";

/** New elements `from` to `from + count`, or elements that are stored already, by their ranges. */
export type SplicePart = { readonly from: number; readonly count: number } | { readonly pieces: readonly Piece[] };

/** What has changed since the node was last stored; applied to its tree when the node is encoded. */
export interface Splice {
  readonly start: number;
  readonly remove: number;
  readonly parts: readonly SplicePart[];
}

/** What lists and texts have in common: parts that are items, the ranges of those items, and their sizes. */
class PartsNode {
  readonly tree: PieceTree;
  pending: Splice | undefined;
  /** JSON bytes of each part as it would stand inline. */
  #sizes: number[];
  #total: number;

  protected constructor(count: number, stored: StoredParts | undefined) {
    this.tree = stored?.tree ?? new PieceTree();
    this.pending = stored ? undefined : { start: 0, remove: 0, parts: [{ from: 0, count }] };
    this.#sizes = stored?.sizes ?? Array.from<number>({ length: count }).fill(0);
    this.#total = this.#sizes.reduce((sum, size) => sum + size, 0);
  }

  get totalSize(): number {
    return this.#total;
  }

  sizeOf(index: number): number {
    return this.#sizes[index] as number;
  }

  setSize(index: number, size: number): void {
    this.#total += size - (this.#sizes[index] as number);
    this.#sizes[index] = size;
  }

  /** Notes that parts `start` to `end` give way to parts of these sizes (0 where it is not known yet). */
  splice(start: number, end: number, sizes: readonly number[], parts: readonly SplicePart[]): void {
    for (let index = start; index < end; index++) this.#total -= this.#sizes[index] as number;
    for (const size of sizes) this.#total += size;
    this.#sizes = replaceRange(this.#sizes, start, end, sizes);
    this.pending = { start, remove: end - start, parts };
  }
}

/** Where the parts of a node that was loaded are stored. */
export interface StoredParts {
  readonly tree: PieceTree;
  readonly sizes: number[];
}

/** Elements of an array or set, pairs of a Map, or entries of an object, each an item. */
export class ListNode extends PartsNode {
  /** What was made of the elements, as far as it was asked for; see {@link ListNode.memoized}. */
  #made: unknown[] = [];

  constructor(
    readonly kind: ListKind,
    /** The elements; for `object` and `dict` the values, in the order of `keys`; for `map` pairs. */
    public elements: Shadow[],
    public keys: string[] | undefined,
    stored?: StoredParts,
  ) {
    super(elements.length, stored);
  }

  /** What `make`, always the same, makes of an element: made once, because an element that has no nodes never changes. */
  memoized<T extends object | null>(index: number, make: (element: Shadow) => T): T {
    const made = this.#made[index] as T | undefined;
    return made === undefined ? ((this.#made[index] = make(this.elements[index] as Shadow)) as T) : made;
  }

  /**
   * Puts elements in the place of those from `start` to `end`.
   *
   * @param kept for each of them the place it had before, if it is an old one
   */
  replace(
    start: number,
    end: number,
    elements: readonly Shadow[],
    keys: readonly string[],
    kept: readonly (number | undefined)[],
  ): void {
    // Made as long as the list first: what is beyond its end would move the parts to a wrong place.
    this.#made.length = this.elements.length;
    const made = kept.map((from) => (from === undefined ? undefined : this.#made[from]));
    this.#made = replaceRange(this.#made, start, end, made);
    this.elements = replaceRange(this.elements, start, end, elements);
    if (this.keys) this.keys = replaceRange(this.keys, start, end, keys);
  }

  get bytes(): number {
    const wrapper = this.kind === "array" || this.kind === "object" ? 2 : `{"$":["${this.kind}",[]]}`.length;
    return this.totalSize + wrapper + Math.max(0, this.elements.length - 1);
  }
}

/** A long string in chunks; or (`dense`) a large value of very small parts, in chunks of its JSON text. */
export class TextNode extends PartsNode {
  constructor(
    /** What is chunked. */
    public text: string,
    /** The length of each chunk, in characters. */
    public lengths: number[],
    /** The value that `text` is the JSON of; `undefined` for a string. */
    public dense: Shadow | undefined,
    stored?: StoredParts,
  ) {
    super(lengths.length, stored);
  }

  get bytes(): number {
    return this.totalSize + (this.dense === undefined ? 2 : 0);
  }
}

/** `array` with `start` to `end` replaced; in place where it only grows, so that growth does not copy a long list. */
export function replaceRange<T>(array: T[], start: number, end: number, parts: readonly T[]): T[] {
  if (start === end && start === array.length) {
    for (const part of parts) array.push(part);
    return array;
  }
  return [...array.slice(0, start), ...parts, ...array.slice(end)];
}

/** A value that left its frame as one item. */
export class ValueNode {
  /** Where it is stored; unset until it is encoded. */
  piece: Piece | undefined;
  bytes = 0;

  constructor(public value: Shadow) {}
}

/** Bytes, stored once per store under their hash. */
export class BlobNode {
  constructor(
    readonly hash: string,
    readonly content: Uint8Array,
    /** Was it a Buffer? */
    readonly isBuffer: boolean,
    /** Is it in the store already? Then it is not sent again. */
    public isStored: boolean,
  ) {}

  get bytes(): number {
    return this.content.length;
  }
}

export function isStoredNode(shadow: Shadow): shadow is StoredNode {
  return (
    shadow instanceof ListNode ||
    shadow instanceof TextNode ||
    shadow instanceof ValueNode ||
    shadow instanceof BlobNode
  );
}

/** Does any part of it live in items of its own? */
export function hasNodes(shadow: Shadow): boolean {
  if (typeof shadow !== "object" || shadow === null) return false;
  if (isStoredNode(shadow)) return true;
  return Array.isArray(shadow) ? shadow.some(hasNodes) : Object.values(shadow).some(hasNodes);
}

/** The name and content of a tagged value, or `undefined` for anything else. */
export function tagOf(shadow: ShadowObject): [string, ...Shadow[]] | undefined {
  const tag = Object.hasOwn(shadow, TAG) ? shadow[TAG] : undefined;
  return tag === undefined ? undefined : (tag as [string, ...Shadow[]]);
}

/** Sets a key, also `__proto__`, which assignment would not. */
export function setKey<T>(object: Record<string, T>, key: string, value: T): void {
  if (key === "__proto__") {
    Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
  } else object[key] = value;
}

/** Roughly how many characters of JSON it takes inline. */
export function estimateSize(shadow: Shadow): number {
  if (typeof shadow === "string") return shadow.length + 2;
  if (typeof shadow !== "object" || shadow === null) return 6;
  if (isStoredNode(shadow)) return 20;
  let size = 2;
  if (Array.isArray(shadow)) for (const element of shadow) size += estimateSize(element) + 1;
  else for (const key of Object.keys(shadow)) size += key.length + 4 + estimateSize(shadow[key] ?? null);
  return size;
}
