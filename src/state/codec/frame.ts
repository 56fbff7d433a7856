/** Frames, and parsing them: a parsed frame refers to parts that are not read yet. */
import { isCounter, listOf, optional, tupleOf } from "../../util/index.js";
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
import { damagedFrame, parseStoredJson } from "./stored-json.js";

/** The stored form of a skeleton or an item: JSON, and the items and blobs that it refers to. */
export interface Frame {
  /** JSON, in which lists and blobs are represented by their position in `refs`. */
  readonly json: string;
  /** The refs as a string; see `tree/refs.ts`. Empty for most items. */
  readonly refs: string;
}

/** A frame of several states that are read together and never changed: they share its parsed form. */
export interface SharedFrame extends Frame {
  readonly memo: { tree?: FrameTree; depth: number };
}

/** A reference to a part of a state that is stored outside its frame and not read yet. */
export class PartRef {
  constructor(
    readonly kind: ListKind | "text" | "dense" | "value" | "blob" | "blobBuffer",
    /** The hash of a blob; for all other kinds the ranges of the items. */
    readonly location: TreeForm | string,
    /** The length of the tag that represents the part in its frame. */
    readonly tagLength: number,
  ) {}
}

/** A parsed frame: a JSON tree in which parts that are stored elsewhere are {@link PartRef}s. */
export type FrameTree = null | boolean | number | string | PartRef | FrameTree[] | { [key: string]: FrameTree };

/**
 * Parses a frame. Throws `DAMAGED` if its JSON is invalid, or does not match its refs.
 *
 * @param tape the tape of the frame, which its refs do not name
 * @param depth the depth of the frame in its state
 */
export function parseFrame(frame: Frame, tape: number, depth = 0): FrameTree {
  const { json, refs, memo } = frame as Frame & Partial<SharedFrame>;
  if (memo?.tree !== undefined && depth <= memo.depth) return memo.tree;
  const tree = parseStoredJson(json, depth);
  if (refs !== "") return resolve(tree, parseRefs(refs, tape));
  // The deeper a frame is, the less nesting it may contain. So the parsed form is valid only up to the depth at which it was
  // parsed.
  if (memo) Object.assign(memo, { tree, depth });
  return tree as FrameTree;
}

/** Parses a node item of a piece tree. */
export function parseNode(frame: Frame, tape: number): TreeForm {
  const node = parseStoredJson(frame.json);
  if (!isNode(node)) throw damagedFrame("it is not a node of a list");
  const [level, counts] = node as [number, number[]?];
  return { level, counts: counts ?? [], pieces: piecesOf(parseRefs(frame.refs, tape)[0]) };
}

const isNode = tupleOf(isCounter, optional(listOf(isCounter)));

function resolve(tree: Shadow, refs: readonly Ref[]): FrameTree {
  if (typeof tree !== "object" || tree === null) return tree;
  if (Array.isArray(tree)) return tree.map((part) => resolve(part, refs));
  if (!isPlainObject(tree)) throw damagedFrame("a part of it is not JSON");
  const tag = tagOf(tree);
  const kind = tag?.[0];
  switch (kind) {
    case "value":
    case "text":
    case "dense":
      return listRef(kind, tag as unknown as ListTag, refs);
    case "array":
    case "object":
    case "dict":
    case "map":
    case "set":
      // A small Map, Set or escaped object is inline: its tag has the content where that of a list has its position.
      if (typeof tag?.[1] === "number") return listRef(kind, tag as unknown as ListTag, refs);
      break;
    case "blob":
    case "blobBuffer": {
      const ref = refs[tag?.[1] as number];
      if (!ref || !("blob" in ref)) throw damagedFrame("its refs do not contain a blob that it refers to");
      return new PartRef(kind, ref.blob, JSON.stringify(tree).length);
    }
    default:
  }
  const copy: { [key: string]: FrameTree } = {};
  for (const key of Object.keys(tree)) setKey(copy, key, resolve(tree[key] as Shadow, refs));
  return copy;
}

type ListTag = readonly [string, number, number?, (readonly number[])?];

function listRef(kind: PartRef["kind"], tag: ListTag, refs: readonly Ref[]): PartRef {
  const form = { level: tag[2] ?? 0, counts: tag[3] ?? [], pieces: piecesOf(refs[tag[1]]) };
  return new PartRef(kind, form, JSON.stringify({ [TAG]: tag }).length);
}

function piecesOf(ref: Ref | undefined): readonly Piece[] {
  if (!ref || !("pieces" in ref)) throw damagedFrame("its refs do not contain a list that it refers to");
  return ref.pieces;
}
