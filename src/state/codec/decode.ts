/**
 * From what a store holds back to a shadow: reads the skeleton's lists level by level, a batch of ranges at a time.
 *
 * What cannot be read is damage. Without `holes` the first of it ends the reading; with it the rest is returned and the
 * holes are named.
 */
import { SavepointError } from "../../errors.js";
import type { Frame } from "./encode.js";
import { parseFrame, parseNode, type FrameTree, PartRef } from "./frame.js";
import {
  BlobNode,
  innerNode,
  joinPointer,
  leafNode,
  ListNode,
  type Piece,
  PieceTree,
  setKey,
  type Shadow,
  type ShadowObject,
  type StoredNode,
  TextNode,
  type TreeForm,
  type TreeNode,
  ValueNode,
} from "../tree/index.js";

/** Why a stored thing could not be read. */
export interface Unreadable {
  readonly unreadable: string;
}

/** What decoding reads through. */
export interface StateReader {
  /** The items of these ranges, one for one and in order. */
  items(pieces: readonly Piece[]): Promise<readonly (Frame | Unreadable)[]>;
  /** The bytes of a blob. */
  blob(hash: string): Promise<Uint8Array | Unreadable>;
}

/** A part of a state that is lost, and why. */
export interface Hole {
  /** JSON pointer to it; for a lost entry of an object, to the object. */
  readonly path: string;
  readonly reason: string;
}

/**
 * Reads a whole state.
 *
 * @param holes given: what is damaged becomes `null` (`""` in a string) and is noted here, instead of an error
 */
export async function decodeState(skeleton: Frame, tape: number, reader: StateReader, holes?: Hole[]): Promise<Shadow> {
  const whole = { tree: parseFrame(skeleton, tape), path: "" };
  return (await new Decoder(reader, holes).complete([whole]))[0] as Shadow;
}

/** A part of a state whose frame is parsed already, and the JSON pointer to it. */
export interface FramePart {
  readonly tree: FrameTree;
  readonly path: string;
}

/** Reads all that is unread in some parts, together. What was parsed becomes part of the shadows and is used up. */
export async function decodeParts(parts: readonly FramePart[], reader: StateReader): Promise<Shadow[]> {
  return new Decoder(reader, undefined).complete(parts);
}

/** The error for a part of a state that cannot be read. */
export function damagedStateError(path: string, reason: string): SavepointError<"DAMAGED"> {
  return new SavepointError("DAMAGED", `The state is damaged at ${path === "" ? "its root" : path}: ${reason}.`, {
    details: { path },
  });
}

/** The tree of a list, with its nodes read. A node that is lost stands as a range of no tape. */
export async function readTree(form: TreeForm, reader: StateReader): Promise<TreeNode> {
  if (form.level === 0) return leafNode(form.pieces);
  return innerNode(await readNodes(form, reader));
}

/** The tape of elements whose node is lost. */
const LOST_TAPE = -1;

async function readNodes(form: TreeForm, reader: StateReader): Promise<TreeNode[]> {
  const places = addressesOf(form.pieces);
  const frames = await reader.items(form.pieces);
  const forms = frames.map((frame, index) =>
    "json" in frame ? parseNode(frame, (places[index] as Piece).tape) : undefined,
  );
  const nested: TreeForm = {
    level: form.level - 1,
    counts: forms.flatMap((node) => node?.counts ?? []),
    pieces: forms.flatMap((node) => node?.pieces ?? []),
  };
  const children = form.level > 1 ? await readNodes(nested, reader) : [];
  return forms.map((node, index) => {
    if (!node) return leafNode([{ tape: LOST_TAPE, start: 0, count: form.counts[index] ?? 0 }]);
    const { tape, start } = places[index] as Piece;
    const at = { tape, item: start };
    return form.level === 1 ? leafNode(node.pieces, at) : innerNode(children.splice(0, node.counts.length), at);
  });
}

/** One range per item. */
function addressesOf(pieces: readonly Piece[]): Piece[] {
  return pieces.flatMap((piece) =>
    Array.from({ length: piece.count }, (_, index) => ({ tape: piece.tape, start: piece.start + index, count: 1 })),
  );
}

/** A list, text or value of which the parts are still to be read, and what to do with them. */
interface Job {
  readonly unread: PartRef;
  readonly path: string;
  readonly put: (shadow: Shadow) => void;
  /** Adds to the size of the part of a list that it stands in. */
  readonly grow: (bytes: number) => void;
}

class Decoder {
  #jobs: Job[] = [];
  /** Sizes to add once all is read: what is nested first, so that each sum is complete when it is added to the next. */
  readonly #growths: (() => void)[] = [];

  constructor(
    readonly reader: StateReader,
    readonly holes: Hole[] | undefined,
  ) {}

  async complete(parts: readonly FramePart[]): Promise<Shadow[]> {
    const shadows: Shadow[] = parts.map(() => null);
    for (const [index, { tree, path }] of parts.entries()) {
      this.#place(
        tree,
        path,
        (shadow) => (shadows[index] = shadow),
        () => {},
      );
    }
    while (this.#jobs.length > 0) {
      const jobs = this.#jobs;
      this.#jobs = [];
      await this.#read(jobs);
    }
    for (const grow of this.#growths.reverse()) grow();
    return shadows;
  }

  /** Gives `put` the shadow of what was parsed; its unread parts follow when they have been read. */
  #place(tree: FrameTree, path: string, put: (shadow: Shadow) => void, grow: (bytes: number) => void): void {
    if (tree instanceof PartRef) {
      this.#jobs.push({ unread: tree, path, put, grow });
      return;
    }
    put(tree as Shadow);
    if (typeof tree !== "object" || tree === null) return;
    const parts = tree as { [key: string]: FrameTree };
    for (const key of Object.keys(parts)) {
      const part = parts[key] as FrameTree;
      if (typeof part !== "object" || part === null) continue;
      this.#place(part, joinPointer(path, key), (shadow) => setKey(parts as ShadowObject, key, shadow), grow);
    }
  }

  /** Puts a node in its place and has its size added to whatever it stands in. */
  #put(job: Job, node: StoredNode): void {
    job.put(node);
    this.#growths.push(() => job.grow(node.bytes - job.unread.tagLength));
  }

  async #read(jobs: readonly Job[]): Promise<void> {
    const blobs = jobs.filter((job) => typeof job.unread.location === "string");
    const lists = jobs.filter((job) => typeof job.unread.location !== "string");
    const trees = await Promise.all(lists.map((job) => readTree(job.unread.location as TreeForm, this.reader)));
    const wanted = trees.map((tree) => new PieceTree(tree).slice(0, tree.count));
    const found = await this.#items(wanted.flat());
    let from = 0;
    for (const [index, job] of lists.entries()) {
      const tree = trees[index] as TreeNode;
      const frames = found.slice(from, from + tree.count);
      from += tree.count;
      this.#finish(job, tree, wanted[index] as Piece[], frames);
    }
    await Promise.all(blobs.map((job) => this.#readBlob(job)));
  }

  async #items(pieces: readonly Piece[]): Promise<(Frame | Unreadable)[]> {
    const frames = await this.reader.items(pieces.filter((piece) => piece.tape !== LOST_TAPE));
    let next = 0;
    return pieces.flatMap((piece) => {
      if (piece.tape !== LOST_TAPE) return frames.slice(next, (next += piece.count));
      return Array.from({ length: piece.count }, () => ({ unreadable: "the node that lists it is damaged" }));
    });
  }

  #finish(job: Job, tree: TreeNode, pieces: readonly Piece[], frames: readonly (Frame | Unreadable)[]): void {
    const { kind } = job.unread;
    if (kind === "text" || kind === "dense") this.#finishText(job, tree, frames);
    else if (kind === "value") this.#finishValue(job, pieces, frames);
    else this.#finishList(job, kind as ListNode["kind"], tree, pieces, frames);
  }

  #finishList(
    job: Job,
    kind: ListNode["kind"],
    tree: TreeNode,
    pieces: readonly Piece[],
    frames: readonly (Frame | Unreadable)[],
  ): void {
    const keyed = kind === "object" || kind === "dict";
    const elements: Shadow[] = [];
    const keys: string[] = [];
    const sizes: number[] = [];
    let piece = 0;
    let end = pieces[0]?.count ?? 0;
    for (let index = 0; index < frames.length; index++) {
      const frame = frames[index] as Frame | Unreadable;
      while (index >= end) end += pieces[++piece]?.count ?? Number.POSITIVE_INFINITY;
      if (!("json" in frame)) {
        this.#hole(keyed ? job.path : joinPointer(job.path, index), frame.unreadable);
        // An array keeps the places of what is whole; an object has lost the key as well.
        if (kind === "array") {
          elements.push(null);
          sizes.push(4);
        }
        continue;
      }
      const at = elements.length;
      let parsed = parseFrame(frame, (pieces[piece] as Piece).tape);
      if (keyed) {
        const [key, value] = parsed as [string, FrameTree];
        keys.push(key);
        parsed = value;
      }
      elements.push(parsed as Shadow);
      sizes.push(Buffer.byteLength(frame.json) - (kind === "object" ? 2 : 0));
      if (frame.refs === "") continue;
      this.#place(
        parsed,
        joinPointer(job.path, keyed ? (keys[at] as string) : index),
        (shadow) => (elements[at] = shadow),
        (bytes) => list.setSize(at, list.sizeOf(at) + bytes),
      );
    }
    const list = new ListNode(kind, elements, keyed ? keys : undefined, { tree: new PieceTree(tree), sizes });
    this.#put(job, list);
  }

  #finishText(job: Job, tree: TreeNode, frames: readonly (Frame | Unreadable)[]): void {
    const chunks: string[] = [];
    for (const frame of frames) {
      if ("json" in frame) chunks.push(JSON.parse(frame.json) as string);
      else this.#hole(job.path, frame.unreadable);
    }
    const text = chunks.join("");
    const dense = job.unread.kind === "dense";
    if (dense && chunks.length < frames.length) return job.put(null);
    const sizes = frames.map((frame, index) => {
      if (dense || !("json" in frame)) return Buffer.byteLength(chunks[index] ?? "");
      return Buffer.byteLength(frame.json) - 2;
    });
    const lengths = chunks.map((chunk) => chunk.length);
    const value = dense ? (JSON.parse(text) as Shadow) : undefined;
    this.#put(job, new TextNode(text, lengths, value, { tree: new PieceTree(tree), sizes }));
  }

  #finishValue(job: Job, pieces: readonly Piece[], frames: readonly (Frame | Unreadable)[]): void {
    const frame = frames[0];
    const piece = pieces[0];
    if (!frame || !piece || !("json" in frame)) {
      this.#hole(job.path, frame && "unreadable" in frame ? frame.unreadable : "it is missing");
      return job.put(null);
    }
    const node = new ValueNode(null);
    node.piece = piece;
    node.bytes = Buffer.byteLength(frame.json);
    this.#place(
      parseFrame(frame, piece.tape),
      job.path,
      (shadow) => (node.value = shadow),
      (bytes) => (node.bytes += bytes),
    );
    this.#put(job, node);
  }

  async #readBlob(job: Job): Promise<void> {
    const hash = job.unread.location as string;
    const content = await this.reader.blob(hash);
    if ("unreadable" in content) {
      this.#hole(job.path, content.unreadable);
      return job.put(null);
    }
    this.#put(job, new BlobNode(hash, content, job.unread.kind === "blobBuffer", true));
  }

  #hole(path: string, reason: string): void {
    if (!this.holes) throw damagedStateError(path, reason);
    this.holes.push({ path, reason });
  }
}
