/**
 * The piece table of a list: the ranges of its items, as a tree.
 *
 * Leaves hold ranges of items, inner nodes hold nodes. A small list is a single leaf, inline in its frame. A large one is
 * written as node items of at most 64 entries, so that an edit rewrites one path of nodes and never all ranges. Nodes are
 * immutable. A written node knows its item and is not written again.
 */
import { MAX_INLINE_PIECES, NODE_FANOUT } from "./limits.js";
import type { Piece } from "./refs.js";

export type TreeNode = Leaf | Inner;

interface NodeBase {
  /** Elements below this node. */
  readonly count: number;
  /** The item of the node; `undefined` until it is written, and for a node that is inline in a frame. */
  at?: Piece;
}
interface Leaf extends NodeBase {
  readonly pieces: readonly Piece[];
}
interface Inner extends NodeBase {
  readonly children: readonly TreeNode[];
}

/** The stored form of a node: ranges of elements (level 0), or of the node items one level below, with their counts. */
export interface TreeForm {
  readonly level: number;
  readonly counts: readonly number[];
  readonly pieces: readonly Piece[];
}

/** Writes a node as an item and returns the range of that item. */
export type WriteNode = (form: TreeForm) => Piece;

/** The ranges of a list, editable in O(log n) node writes. */
export class PieceTree {
  #root: TreeNode;

  constructor(root: TreeNode = leafNode([])) {
    this.#root = root;
  }

  get count(): number {
    return this.#root.count;
  }

  /** Replaces `remove` elements from `start` by the elements of `pieces`. */
  splice(start: number, remove: number, pieces: readonly Piece[]): void {
    let nodes = spliceNode(this.#root, start, remove, pieces);
    while (nodes.length > 1) nodes = group(nodes);
    let root = nodes[0] ?? leafNode([]);
    while ("children" in root && root.children.length === 1 && root.children[0]) root = root.children[0];
    this.#root = root;
  }

  /** The ranges of `count` elements from `start`. */
  slice(start: number, count: number): Piece[] {
    const found: Piece[] = [];
    collect(this.#root, start, start + count, found);
    return coalesce(found);
  }

  /** Writes the new nodes and returns the form of the tree in its frame. */
  store(write: WriteNode): TreeForm {
    const root = this.#root;
    if ("pieces" in root && root.pieces.length <= MAX_INLINE_PIECES)
      return { level: 0, counts: [], pieces: root.pieces };
    const inline = "children" in root && root.children.length <= MAX_INLINE_PIECES ? root.children : [root];
    return formOf(inline, write);
  }
}

/** A node of ranges of elements. */
export function leafNode(pieces: readonly Piece[], at?: Piece): TreeNode {
  const count = pieces.reduce((sum, piece) => sum + piece.count, 0);
  return at ? { count, pieces, at } : { count, pieces };
}

/** A node above other nodes. */
export function innerNode(children: readonly TreeNode[], at?: Piece): TreeNode {
  const count = children.reduce((sum, child) => sum + child.count, 0);
  return at ? { count, children, at } : { count, children };
}

/** One range per item. */
export function splitPieces(pieces: readonly Piece[]): Piece[] {
  return pieces.flatMap(({ tape, start, count }) =>
    Array.from({ length: count }, (_, index) => ({ tape, start: start + index, count: 1 })),
  );
}

/** Joins adjacent ranges of one tape and drops empty ones. */
export function coalesce(pieces: readonly Piece[]): Piece[] {
  const joined: Piece[] = [];
  for (const piece of pieces) {
    const last = joined.at(-1);
    if (piece.count <= 0) continue;
    if (last && last.tape === piece.tape && last.start + last.count === piece.start) {
      joined[joined.length - 1] = { ...last, count: last.count + piece.count };
    } else joined.push(piece);
  }
  return joined;
}

function spliceNode(node: TreeNode, start: number, remove: number, insert: readonly Piece[]): TreeNode[] {
  if ("pieces" in node) {
    const before: Piece[] = [];
    const after: Piece[] = [];
    collect(node, 0, start, before);
    collect(node, start + remove, node.count, after);
    const pieces = coalesce([...before, ...insert, ...after]);
    return pieces.length === 0 ? [] : split(pieces).map((part) => leafNode(part));
  }
  let total = 0;
  const ends = node.children.map((child) => (total += child.count));
  // The first child that reaches beyond `start` receives the insertion, else the last one. The others only lose elements.
  const first = ends.findIndex((end) => start < end);
  const receiver = first < 0 ? ends.length - 1 : first;
  const children = node.children.flatMap((child, index) => {
    const end = ends[index] as number;
    const offset = end - child.count;
    const from = Math.max(start, offset);
    const to = Math.min(start + remove, end);
    if (index !== receiver && to <= from) return [child];
    return spliceNode(child, from - offset, Math.max(0, to - from), index === receiver ? insert : []);
  });
  return group(joinSmall(children));
}

/** Appends the ranges of elements `from` to `to` below a node. */
function collect(node: TreeNode, from: number, to: number, into: Piece[]): void {
  let at = 0;
  for (const part of "pieces" in node ? node.pieces : node.children) {
    const start = Math.max(from, at);
    const end = Math.min(to, at + part.count);
    if (end > start) {
      if ("start" in part) into.push({ tape: part.tape, start: part.start + start - at, count: end - start });
      else collect(part, start - at, end - at, into);
    }
    at += part.count;
    if (at >= to) return;
  }
}

/** Groups nodes under as few parents as the fan-out allows. */
function group(nodes: readonly TreeNode[]): TreeNode[] {
  return nodes.length === 0 ? [] : split(nodes).map((part) => innerNode(part));
}

/** Even parts of at most the fan-out. */
function split<T>(parts: readonly T[]): T[][] {
  const groups = Math.ceil(parts.length / NODE_FANOUT);
  const size = Math.ceil(parts.length / groups);
  return Array.from({ length: groups }, (_, index) => parts.slice(index * size, (index + 1) * size));
}

/** Joins neighbours that together fill at most half a node, so that deletions leave no tiny nodes. */
function joinSmall(nodes: readonly TreeNode[]): TreeNode[] {
  const joined: TreeNode[] = [];
  for (const node of nodes) {
    const last = joined.at(-1);
    if (last && entries(last) + entries(node) <= NODE_FANOUT / 2) joined[joined.length - 1] = join(last, node);
    else joined.push(node);
  }
  return joined;
}

function entries(node: TreeNode): number {
  return "pieces" in node ? node.pieces.length : node.children.length;
}

function join(a: TreeNode, b: TreeNode): TreeNode {
  if ("pieces" in a && "pieces" in b) return leafNode(coalesce([...a.pieces, ...b.pieces]));
  if ("children" in a && "children" in b) return innerNode([...a.children, ...b.children]);
  throw new Error("Nodes of one parent must be of one level.");
}

/** Writes the new ones among `nodes`, deepest first and each level consecutively, and returns the form that refers to them. */
function formOf(nodes: readonly TreeNode[], write: WriteNode): TreeForm {
  const forms = nodes.map((node) => {
    if (node.at) return undefined;
    return "pieces" in node ? { level: 0, counts: [], pieces: node.pieces } : formOf(node.children, write);
  });
  const pieces = nodes.map((node, index) => {
    const form = forms[index];
    if (form) node.at = write(form);
    if (!node.at) throw new Error("A node that is not written must have an address.");
    return node.at;
  });
  return { level: levelOf(nodes[0]) + 1, counts: nodes.map((node) => node.count), pieces: coalesce(pieces) };
}

function levelOf(node: TreeNode | undefined): number {
  return node && "children" in node ? 1 + levelOf(node.children[0]) : 0;
}
