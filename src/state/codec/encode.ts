/**
 * From a shadow to what a store writes: the skeleton of the checkpoint, and the items and blobs that are new.
 *
 * Items are numbered as they are made, from the number the branch's tape has reached. A frame's text names its lists
 * and blobs by their position in `refs`: `{"messages":{"$":["array",0]}}` beside `0+1000`.
 */
import {
  type Address,
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
  TextNode,
  type TreeForm,
  ValueNode,
} from "../tree/index.js";

/** A piece of text with what it points at: a skeleton or an item. */
export interface Frame {
  /** JSON, in which lists and blobs are named by their position in `refs`. */
  readonly json: string;
  /** See refs.ts. Empty for most items. */
  readonly refs: string;
}

export interface EncodedState {
  readonly skeleton: Frame;
  /** New items of the tape, numbered from where it stood. */
  readonly items: readonly Frame[];
  /** Blobs that the state before this one did not have, by hash. */
  readonly blobs: ReadonlyMap<string, Uint8Array>;
  /** Bytes of the whole state, were it written as one JSON text (blobs counted as their bytes). */
  readonly stateBytes: number;
}

/** Encodes a shadow, and notes in it where its new parts are stored. */
export function encodeShadow(shadow: Shadow, tape: number, nextItem: number): EncodedState {
  const encoder = new Encoder(tape, nextItem);
  const { frame, bytes } = encoder.frame(shadow);
  return { skeleton: frame, items: encoder.items, blobs: encoder.blobs, stateBytes: bytes };
}

class Encoder {
  readonly items: Frame[] = [];
  readonly blobs = new Map<string, Uint8Array>();

  constructor(
    readonly tape: number,
    readonly first: number,
  ) {}

  /** The text of a frame, and the bytes it would take with everything inline. */
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

  /** Stores a node's new parts and gives the tag that stands for it in its frame. */
  #tag(node: StoredNode, refs: Ref[]): ShadowObject {
    const ordinal = refs.length;
    // Reserved before anything nested is encoded; nested frames have refs of their own.
    if (node instanceof BlobNode) {
      refs.push({ blob: node.hash });
      if (!node.isStored) this.blobs.set(node.hash, node.content);
      node.isStored = true;
      return { $: [node.isBuffer ? "blobBuffer" : "blob", ordinal] };
    }
    if (node instanceof ValueNode) {
      if (!node.piece) {
        const { frame, bytes } = this.frame(node.value);
        node.piece = pieceAt(this.#put(frame));
        node.bytes = bytes;
      }
      refs.push({ pieces: [node.piece] });
      return { $: ["value", ordinal] };
    }
    const kind = node instanceof ListNode ? node.kind : node.dense === undefined ? "text" : "dense";
    const form = this.#store(node);
    refs.push({ pieces: form.pieces });
    return { $: form.level === 0 ? [kind, ordinal] : [kind, ordinal, form.level, [...form.counts]] };
  }

  /** Writes what is pending of a list or text, then the nodes of its tree that changed. */
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

  /** New elements side by side, so that they are one range; what is nested in them is written before them. */
  #putElements(node: ListNode | TextNode, from: number, count: number): Piece[] {
    if (count === 0) return [];
    const frames: Frame[] = [];
    let offset = node instanceof TextNode ? sum(node.lengths, from) : 0;
    for (let index = from; index < from + count; index++) {
      let element: Shadow;
      // Entries lose their brackets and chunks their quotes where they stand inline.
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
    }
    const start = this.first + this.items.length;
    for (const frame of frames) this.items.push(frame);
    return [{ tape: this.tape, start, count }];
  }

  #put(frame: Frame): Address {
    return { tape: this.tape, item: this.first + this.items.push(frame) - 1 };
  }
}

/** The same tree with every node replaced; what has none is returned as it is. */
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

function pieceAt(address: Address): Piece {
  return { tape: address.tape, start: address.item, count: 1 };
}

function sum(numbers: readonly number[], count: number): number {
  let total = 0;
  for (let index = 0; index < count; index++) total += numbers[index] as number;
  return total;
}
