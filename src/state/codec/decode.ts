/**
 * Decodes a stored state to a shadow. The state is read level by level: the items of all lists on one level are read with one
 * request.
 *
 * Damage is an error, unless the caller passes `holes`: then the readable rest is returned and the damaged parts are listed.
 */
import {
  BlobNode,
  joinPointer,
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
import { type Frame, type FrameTree, parseFrame, PartRef } from "./frame.js";
import { damagedStateError, type StateReader, type Unreadable } from "./state-reader.js";
import { LOST_TAPE, readTree } from "./stored-tree.js";

/** A damaged part of a state. */
export interface Hole {
  /** The JSON pointer to the part. If the entry of an object is lost, its key is unknown: then the pointer to the object. */
  readonly path: string;
  readonly reason: string;
}

/**
 * Reads a state. Throws `DAMAGED` at the first part that cannot be read, unless `holes` is passed.
 *
 * @param tape the tape of the checkpoint, which the refs of its skeleton do not name
 * @param holes receives the damaged parts; they become `null`, and damaged segments of a string become `""`
 */
export async function decodeState(skeleton: Frame, tape: number, reader: StateReader, holes?: Hole[]): Promise<Shadow> {
  const root = { tree: parseFrame(skeleton, tape), path: "" };
  return (await new Decoder(reader, holes).decode([root]))[0] as Shadow;
}

/** A part of a state whose frame is parsed, and the JSON pointer to it. */
export interface FramePart {
  readonly tree: FrameTree;
  readonly path: string;
}

/** Reads several parts with shared requests. The trees become parts of the shadows and must not be used afterwards. */
export async function decodeParts(parts: readonly FramePart[], reader: StateReader): Promise<Shadow[]> {
  return new Decoder(reader, undefined).decode(parts);
}

/** A list, text, value or blob that is still to be read, and where the result belongs. */
interface Job {
  readonly ref: PartRef;
  readonly path: string;
  readonly put: (shadow: Shadow) => void;
  /** Adds to the size of the element or value that contains it. */
  readonly grow: (bytes: number) => void;
}

class Decoder {
  #jobs: Job[] = [];
  /** Size updates, applied in reverse when everything is read: the size of a nested node must be complete before it is added. */
  readonly #growths: (() => void)[] = [];

  readonly #reader: StateReader;
  readonly #holes: Hole[] | undefined;

  constructor(reader: StateReader, holes: Hole[] | undefined) {
    this.#reader = reader;
    this.#holes = holes;
  }

  async decode(parts: readonly FramePart[]): Promise<Shadow[]> {
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

  /** Passes the shadow of a parsed tree to `put`, and schedules the reading of the parts that it refers to. */
  #place(tree: FrameTree, path: string, put: (shadow: Shadow) => void, grow: (bytes: number) => void): void {
    if (tree instanceof PartRef) {
      this.#jobs.push({ ref: tree, path, put, grow });
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

  /** Puts a node in its place and schedules the update of the sizes around it. */
  #put(job: Job, node: StoredNode): void {
    job.put(node);
    this.#growths.push(() => job.grow(node.bytes - job.ref.tagLength));
  }

  async #read(jobs: readonly Job[]): Promise<void> {
    const blobs = jobs.filter((job) => typeof job.ref.location === "string");
    const lists = jobs.filter((job) => typeof job.ref.location !== "string");
    const trees = await Promise.all(lists.map((job) => readTree(job.ref.location as TreeForm, this.#reader)));
    const pieces = trees.map((tree) => new PieceTree(tree).slice(0, tree.count));
    const frames = await this.#items(pieces.flat());
    let from = 0;
    for (const [index, job] of lists.entries()) {
      const tree = trees[index] as TreeNode;
      const places = pieces[index] as Piece[];
      const parts = frames.slice(from, (from += tree.count));
      const { kind } = job.ref;
      if (kind === "text" || kind === "dense") this.#putText(job, tree, parts);
      else if (kind === "value") this.#putValue(job, places[0], parts[0]);
      else this.#putList(job, tree, places, parts);
    }
    await Promise.all(blobs.map((job) => this.#putBlob(job)));
  }

  async #items(pieces: readonly Piece[]): Promise<(Frame | Unreadable)[]> {
    const frames = await this.#reader.items(pieces.filter((piece) => piece.tape !== LOST_TAPE));
    let next = 0;
    return pieces.flatMap((piece) => {
      if (piece.tape !== LOST_TAPE) return frames.slice(next, (next += piece.count));
      return Array.from({ length: piece.count }, () => ({ unreadable: "the node that lists it is damaged" }));
    });
  }

  #putList(job: Job, tree: TreeNode, pieces: readonly Piece[], frames: readonly (Frame | Unreadable)[]): void {
    const kind = job.ref.kind as ListNode["kind"];
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
        this.#reportHole(keyed ? job.path : joinPointer(job.path, index), frame.unreadable);
        // An array keeps the indexes of its intact elements. An object has lost the key as well.
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

  #putText(job: Job, tree: TreeNode, frames: readonly (Frame | Unreadable)[]): void {
    const chunks: string[] = [];
    for (const frame of frames) {
      if ("json" in frame) chunks.push(JSON.parse(frame.json) as string);
      else this.#reportHole(job.path, frame.unreadable);
    }
    const text = chunks.join("");
    const dense = job.ref.kind === "dense";
    if (dense && chunks.length < frames.length) return job.put(null);
    const sizes = frames.map((frame, index) => {
      if (dense || !("json" in frame)) return Buffer.byteLength(chunks[index] ?? "");
      return Buffer.byteLength(frame.json) - 2;
    });
    const lengths = chunks.map((chunk) => chunk.length);
    const value = dense ? (JSON.parse(text) as Shadow) : undefined;
    this.#put(job, new TextNode(text, lengths, value, { tree: new PieceTree(tree), sizes }));
  }

  #putValue(job: Job, piece: Piece | undefined, frame: Frame | Unreadable | undefined): void {
    if (!frame || !piece || !("json" in frame)) {
      this.#reportHole(job.path, frame && "unreadable" in frame ? frame.unreadable : "it is missing");
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

  async #putBlob(job: Job): Promise<void> {
    const hash = job.ref.location as string;
    const content = await this.#reader.blob(hash);
    if ("unreadable" in content) {
      this.#reportHole(job.path, content.unreadable);
      return job.put(null);
    }
    this.#put(job, new BlobNode(hash, content, job.ref.kind === "blobBuffer", true));
  }

  #reportHole(path: string, reason: string): void {
    if (!this.#holes) throw damagedStateError(path, reason);
    this.#holes.push({ path, reason });
  }
}
