/**
 * The shadow: a private copy of the last saved state, in its stored form.
 *
 * It is a JSON tree in which plain JSON represents itself, an object with the single key `$` is a tagged value (a Date, a
 * Map, …), and a node of one of the classes below represents a part of the state that is stored in items. Strings are shared
 * with the state that the shadow was made from, so that most comparisons of the two compare pointers.
 *
 * A shadow is changed in place when a new state is compared with it. If the comparison or the commit fails, the shadow is
 * invalid and its owner must discard it.
 */
import { PieceTree } from "./piece-tree.js";
import type { Piece } from "./refs.js";

/** A state, or a part of one, in its stored form. */
export type Shadow = null | boolean | number | string | ShadowArray | ShadowObject | StoredNode;
export type ShadowArray = Shadow[];
export interface ShadowObject {
  [key: string]: Shadow;
}
/** A part of a state that is stored outside its frame. */
export type StoredNode = ListNode | TextNode | ValueNode | BlobNode;

/** The key of a tagged value. A user's object that has this key is itself stored as a value with the tag `object`. */
export const TAG = "$";

/** What a list represents: `dict` is an object without a prototype. */
export type ListKind = "array" | "set" | "map" | "object" | "dict";

/** New elements `from` to `from + count`, or the ranges of elements that are already stored. */
export type SplicePart = { readonly from: number; readonly count: number } | { readonly pieces: readonly Piece[] };

/** A change of a node since it was last stored. It is applied to the tree of the node when the node is encoded. */
export interface Splice {
  readonly start: number;
  readonly remove: number;
  readonly parts: readonly SplicePart[];
}

/** The common base of lists and texts: parts that are items, the ranges of those items, and their sizes. */
class PartsNode {
  readonly tree: PieceTree;
  pending: Splice | undefined;
  /** The bytes of JSON that each part would take inline. */
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

  /** Records the replacement of the parts `start` to `end`. The sizes of new parts are 0 until they are encoded. */
  splice(start: number, end: number, sizes: readonly number[], parts: readonly SplicePart[]): void {
    for (let index = start; index < end; index++) this.#total -= this.#sizes[index] as number;
    for (const size of sizes) this.#total += size;
    this.#sizes = replaceRange(this.#sizes, start, end, sizes);
    this.pending = { start, remove: end - start, parts };
  }
}

/** The ranges and sizes of the parts of a loaded node. */
export interface StoredParts {
  readonly tree: PieceTree;
  readonly sizes: number[];
}

/** An element of a replacement in a list. */
export interface ListEntry {
  readonly element: Shadow;
  /** The key, if the list has keys. */
  readonly key: string | undefined;
  /** The index that a kept element had. */
  readonly keptFrom?: number;
}

/** The elements of an array or Set, pairs of a Map, or entries of an object, each of which is an item. */
export class ListNode extends PartsNode {
  /** See {@link ListNode.memoized}. */
  #memos: unknown[] = [];

  constructor(
    readonly kind: ListKind,
    /** The elements; for `object` and `dict` the values, in the order of `keys`; for `map` pairs. */
    public elements: Shadow[],
    public keys: string[] | undefined,
    stored?: StoredParts,
  ) {
    super(elements.length, stored);
  }

  /**
   * The result of `compute` for an element, computed once: an element without nodes never changes.
   *
   * @param compute must be the same function in all calls; must return `null` for an element with nodes
   */
  memoized<T extends object | null>(index: number, compute: (element: Shadow) => T): T {
    const memo = this.#memos[index] as T | undefined;
    return memo === undefined ? ((this.#memos[index] = compute(this.elements[index] as Shadow)) as T) : memo;
  }

  /** Replaces the elements `start` to `end`. */
  replace(start: number, end: number, entries: readonly ListEntry[]): void {
    // The memos are sparse. Without the length of the list, the replacement would end up at a wrong index.
    this.#memos.length = this.elements.length;
    const memos = entries.map(({ keptFrom }) => (keptFrom === undefined ? undefined : this.#memos[keptFrom]));
    const elements = entries.map(({ element }) => element);
    const keys = entries.map(({ key }) => key as string);
    this.#memos = replaceRange(this.#memos, start, end, memos);
    this.elements = replaceRange(this.elements, start, end, elements);
    if (this.keys) this.keys = replaceRange(this.keys, start, end, keys);
  }

  get bytes(): number {
    const wrapper = this.kind === "array" || this.kind === "object" ? 2 : `{"$":["${this.kind}",[]]}`.length;
    return this.totalSize + wrapper + Math.max(0, this.elements.length - 1);
  }
}

/** A long string in segments; or (`dense`) a large value of tiny parts, in segments of its JSON. */
export class TextNode extends PartsNode {
  constructor(
    /** The string that the segments make up. */
    public text: string,
    /** The length of each segment, in characters. */
    public lengths: number[],
    /** The value whose JSON is `text`; `undefined` for a string. */
    public dense: Shadow | undefined,
    stored?: StoredParts,
  ) {
    super(lengths.length, stored);
  }

  get bytes(): number {
    return this.totalSize + (this.dense === undefined ? 2 : 0);
  }
}

/** Replaces `start` to `end` of an array. Works in place if the array only grows, so that appending does not copy it. */
export function replaceRange<T>(array: T[], start: number, end: number, parts: readonly T[]): T[] {
  if (start === end && start === array.length) {
    for (const part of parts) array.push(part);
    return array;
  }
  return [...array.slice(0, start), ...parts, ...array.slice(end)];
}

/** A value that is stored as one item. */
export class ValueNode {
  /** The item; `undefined` until the node is encoded. */
  piece: Piece | undefined;
  bytes = 0;

  constructor(public value: Shadow) {}
}

/** Bytes that are stored once per store, under their hash. */
export class BlobNode {
  constructor(
    readonly hash: string,
    readonly content: Uint8Array,
    /** Whether the blob is loaded as a Buffer, not as a plain Uint8Array. */
    readonly isBuffer: boolean,
    /** Whether the blob is already in the store, so that it is not sent again. */
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

/** Whether any part of a shadow is stored outside its frame. */
export function hasNodes(shadow: Shadow): boolean {
  if (typeof shadow !== "object" || shadow === null) return false;
  if (isStoredNode(shadow)) return true;
  return Array.isArray(shadow) ? shadow.some(hasNodes) : Object.values(shadow).some(hasNodes);
}

/** Whether a shadow is an inline object: plain or tagged, but neither an array nor a node. */
export function isPlainObject(shadow: Shadow): shadow is ShadowObject {
  return typeof shadow === "object" && shadow !== null && Object.getPrototypeOf(shadow) === Object.prototype;
}

/** The name and content of a tagged value; `undefined` for any other object. */
export function tagOf(shadow: ShadowObject): [string, ...Shadow[]] | undefined {
  const tag = Object.hasOwn(shadow, TAG) ? shadow[TAG] : undefined;
  return tag === undefined ? undefined : (tag as [string, ...Shadow[]]);
}

/** Sets a key of an object. Unlike an assignment, it also sets `__proto__`. */
export function setKey<T>(object: Record<string, T>, key: string, value: T): void {
  if (key === "__proto__") {
    Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
  } else object[key] = value;
}

/** Estimates the characters of JSON that a shadow takes in its frame. */
export function estimateSize(shadow: Shadow): number {
  if (typeof shadow === "string") return shadow.length + 2;
  if (typeof shadow !== "object" || shadow === null) return 6;
  if (isStoredNode(shadow)) return 20;
  let size = 2;
  if (Array.isArray(shadow)) for (const element of shadow) size += estimateSize(element) + 1;
  else for (const key of Object.keys(shadow)) size += key.length + 4 + estimateSize(shadow[key] ?? null);
  return size;
}
