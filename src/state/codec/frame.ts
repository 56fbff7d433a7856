/** Reading one frame: its text, and what it points at, before any of that is read. */
import { SavepointError } from "../../errors.js";
import type { Frame } from "./encode.js";
import {
  isPlainObject,
  type ListKind,
  parseRefs,
  type Piece,
  type Ref,
  setKey,
  type Shadow,
  TAG,
  tagOf,
  type TreeForm,
} from "../tree/index.js";

/** A part of a state that is stored elsewhere and not read yet. */
export class PartRef {
  constructor(
    readonly kind: ListKind | "text" | "dense" | "value" | "blob" | "blobBuffer",
    /** The ranges of a list's items, or the nodes that hold them; for a blob its hash. */
    readonly location: TreeForm | string,
    /** How long the tag is that stands for it in its frame. */
    readonly tagLength: number,
  ) {}
}

/** A frame as it was read: an encoded JSON tree in which what is stored elsewhere is an {@link PartRef}. */
export type FrameTree = null | boolean | number | string | PartRef | FrameTree[] | { [key: string]: FrameTree };

/** @param tape the tape the frame belongs to, which its refs do not name */
export function parseFrame(frame: Frame, tape: number): FrameTree {
  const tree = JSON.parse(frame.json) as Shadow;
  return frame.refs === "" ? (tree as FrameTree) : resolve(tree, parseRefs(frame.refs, tape));
}

/** Reads a node item: what {@link PieceTree} wrote of itself. */
export function parseNode(frame: Frame, tape: number): TreeForm {
  const [level, counts] = JSON.parse(frame.json) as [number, number[]?];
  return { level, counts: counts ?? [], pieces: piecesOf(parseRefs(frame.refs, tape)[0]) };
}

function resolve(tree: Shadow, refs: readonly Ref[]): FrameTree {
  if (typeof tree !== "object" || tree === null) return tree;
  if (Array.isArray(tree)) return tree.map((part) => resolve(part, refs));
  if (!isPlainObject(tree)) throw unreadable("a part of it is no JSON");
  const tag = tagOf(tree);
  const kind = tag?.[0];
  switch (kind) {
    case "value":
    case "text":
    case "dense":
      return unread(kind, tag as unknown as ListTag, refs);
    case "array":
    case "object":
    case "dict":
    case "map":
    case "set":
      // A small Map, Set or escaped object stands inline, with its content where a list has its position.
      if (typeof tag?.[1] === "number") return unread(kind, tag as unknown as ListTag, refs);
      break;
    case "blob":
    case "blobBuffer": {
      const ref = refs[tag?.[1] as number];
      if (!ref || !("blob" in ref)) throw unreadable("a blob it names is not in its refs");
      return new PartRef(kind, ref.blob, JSON.stringify(tree).length);
    }
    default:
  }
  const copy: { [key: string]: FrameTree } = {};
  for (const key of Object.keys(tree)) setKey(copy, key, resolve(tree[key] as Shadow, refs));
  return copy;
}

type ListTag = readonly [string, number, number?, (readonly number[])?];

function unread(kind: PartRef["kind"], tag: ListTag, refs: readonly Ref[]): PartRef {
  const form = { level: tag[2] ?? 0, counts: tag[3] ?? [], pieces: piecesOf(refs[tag[1]]) };
  return new PartRef(kind, form, JSON.stringify({ [TAG]: tag }).length);
}

function piecesOf(ref: Ref | undefined): readonly Piece[] {
  if (!ref || !("pieces" in ref)) throw unreadable("a list it names is not in its refs");
  return ref.pieces;
}

function unreadable(why: string): SavepointError {
  return new SavepointError("DAMAGED", `A stored frame is unreadable: ${why}.`);
}
