/**
 * Encodes a shadow as the skeleton of a checkpoint and its new items and blobs.
 *
 * Items are numbered in the order of their creation, from the end of the branch's tape. In the JSON of a frame, a list or
 * blob is represented by its position in `refs`: `{"messages":{"$":["array",0]}}` with the refs `0+1000`.
 */
import {
  BlobNode,
  formatRefs,
  isStoredNode,
  ListNode,
  type Piece,
  type Ref,
  setKey,
  type Shadow,
  type ShadowObject,
  type StoredNode,
  type StoredValue,
  TextNode,
  type TreeForm,
  ValueNode,
} from "../tree/index.js";
import type { Frame } from "./frame.js";
import { ItemSharing } from "./item-sharing.js";

/** What a checkpoint of a state has to write. */
export interface EncodedState {
  readonly skeleton: Frame;
  /** The new items, numbered from the end of the tape. */
  readonly items: readonly Frame[];
  /** The blobs that the previous state did not have, by hash. */
  readonly blobs: ReadonlyMap<string, Uint8Array>;
  /** The size of the state as one JSON string, plus the bytes of its blobs. */
  readonly stateBytes: number;
}

/**
 * Encodes a shadow and records the addresses of its new parts in it. If the commit of the result fails, the shadow must be
 * discarded.
 *
 * @param nextItem the number of the first new item on `tape`
 * @param added the new elements of arrays are added to it, each of which is one item
 */
export function encodeShadow(shadow: Shadow, tape: number, nextItem: number, added?: StoredValue[]): EncodedState {
  const encoder = new Encoder(tape, nextItem, added);
  const { frame, bytes } = encoder.frame(shadow);
  return { skeleton: frame, items: encoder.items, blobs: encoder.blobs, stateBytes: bytes };
}

class Encoder {
  readonly items: Frame[] = [];
  readonly blobs = new Map<string, Uint8Array>();
  readonly #sharing = new ItemSharing(this.items);

  constructor(
    readonly tape: number,
    readonly first: number,
    readonly added: StoredValue[] | undefined,
  ) {}

  /** Encodes a frame. `bytes` is its size with everything inline. */
  frame(shadow: Shadow): { frame: Frame; bytes: number } {
    const refs: Ref[] = [];
    let outside = 0;
    const place = (node: StoredNode): Shadow => {
      const tag = this.#tag(node, refs);
      outside += node.bytes - JSON.stringify(tag).length;
      return tag;
    };
    const json = JSON.stringify(substitute(shadow, place));
    return { frame: { json, refs: formatRefs(refs, this.tape) }, bytes: Buffer.byteLength(json) + outside };
  }

  /** Encodes the new parts of a node and returns the tag that represents it in its frame. */
  #tag(node: StoredNode, refs: Ref[]): ShadowObject {
    const position = refs.length;
    if (node instanceof BlobNode) {
      refs.push({ blob: node.hash });
      if (!node.isStored) this.blobs.set(node.hash, node.content);
      node.isStored = true;
      return { $: [node.isBuffer ? "blobBuffer" : "blob", position] };
    }
    if (node instanceof ValueNode) {
      if (!node.piece) {
        const { frame, bytes } = this.frame(node.value);
        // It needs a reference in any case, so sharing its item costs nothing.
        const shared = this.#sharing.find([frame], 0, 0);
        node.piece = shared ? this.#piece(shared.start, 1) : this.#put(frame);
        node.bytes = bytes;
      }
      refs.push({ pieces: [node.piece] });
      return { $: ["value", position] };
    }
    const kind = node instanceof ListNode ? node.kind : node.dense === undefined ? "text" : "dense";
    const form = this.#store(node);
    refs.push({ pieces: form.pieces });
    return { $: form.level === 0 ? [kind, position] : [kind, position, form.level, [...form.counts]] };
  }

  /** Encodes the pending change of a list or text, then the changed nodes of its tree. */
  #store(node: ListNode | TextNode): TreeForm {
    const { pending } = node;
    if (pending) {
      const pieces = pending.parts.flatMap((part) =>
        "pieces" in part ? part.pieces : this.#putElements(node, part.from, part.count),
      );
      node.tree.splice(pending.start, pending.remove, pieces);
      node.pending = undefined;
    }
    return node.tree.store((form) =>
      this.#put({
        json: JSON.stringify(form.level === 0 ? [0] : [form.level, form.counts]),
        refs: formatRefs([{ pieces: form.pieces }], this.tape),
      }),
    );
  }

  /** Encodes new elements as consecutive items, after the items that are nested in them. Equal parts of the state share items. */
  #putElements(node: ListNode | TextNode, from: number, count: number): Piece[] {
    if (count === 0) return [];
    const frames: Frame[] = [];
    const sizes: number[] = [];
    let offset = node instanceof TextNode ? sum(node.lengths, from) : 0;
    for (let index = from; index < from + count; index++) {
      let element: Shadow;
      // The characters that an item has and an inline part has not: brackets of an entry, quotes of a segment.
      let wrapper = 0;
      if (node instanceof TextNode) {
        const length = node.lengths[index] as number;
        element = node.text.slice(offset, offset + length);
        offset += length;
        wrapper = 2;
        if (node.dense !== undefined) wrapper = JSON.stringify(element).length - element.length;
      } else {
        element = node.elements[index] as Shadow;
        if (node.keys) element = [node.keys[index] as string, element];
        if (node.kind === "object") wrapper = 2;
      }
      const { frame, bytes } = this.frame(element);
      node.setSize(index, bytes - wrapper);
      frames.push(frame);
      sizes.push(bytes);
    }
    const pieces = this.#putFrames(frames);
    if (this.added && node instanceof ListNode && node.kind === "array") {
      let index = 0;
      for (const { start, count } of pieces) {
        for (let item = start; item < start + count; item++, index++) {
          const shadow = node.elements[from + index] as Shadow;
          const piece = { tape: this.tape, start: item, count: 1 };
          this.added.push({ shadow, piece, bytes: sizes[index] as number });
        }
      }
    }
    return pieces;
  }

  /** Adds frames as items, except those that equal earlier new items. Returns the places of all. */
  #putFrames(frames: readonly Frame[]): Piece[] {
    const pieces: Piece[] = [];
    // The items from this one on are not in a piece yet.
    let start = this.items.length;
    for (let index = 0; index < frames.length;) {
      const shared = this.#sharing.find(frames, index);
      if (shared) {
        if (this.items.length > start) pieces.push(this.#piece(start, this.items.length - start));
        pieces.push(this.#piece(shared.start, shared.count));
        start = this.items.length;
        index += shared.count;
      } else this.items.push(frames[index++] as Frame);
    }
    if (this.items.length > start) pieces.push(this.#piece(start, this.items.length - start));
    return pieces;
  }

  /** @param index the position of the first item among the new ones */
  #piece(index: number, count: number): Piece {
    return { tape: this.tape, start: this.first + index, count };
  }

  #put(frame: Frame): Piece {
    return { tape: this.tape, start: this.first + this.items.push(frame) - 1, count: 1 };
  }
}

/** Replaces every node of a tree. Parts without nodes are not copied. */
function substitute(shadow: Shadow, place: (node: StoredNode) => Shadow): Shadow {
  if (typeof shadow !== "object" || shadow === null) return shadow;
  if (isStoredNode(shadow)) return place(shadow);
  if (Array.isArray(shadow)) {
    let copy: Shadow[] | undefined;
    for (let index = 0; index < shadow.length; index++) {
      const before = shadow[index] as Shadow;
      const after = substitute(before, place);
      if (after !== before) (copy ??= [...shadow])[index] = after;
    }
    return copy ?? shadow;
  }
  let copy: ShadowObject | undefined;
  for (const key of Object.keys(shadow)) {
    const before = shadow[key] as Shadow;
    const after = substitute(before, place);
    if (after !== before) setKey((copy ??= { ...shadow }), key, after);
  }
  return copy ?? shadow;
}

function sum(numbers: readonly number[], count: number): number {
  let total = 0;
  for (let index = 0; index < count; index++) total += numbers[index] as number;
  return total;
}
