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
import { isSavepointError } from "../../errors.js";
import { BoundedReader } from "./bounded-reader.js";
import { type Frame, type FrameTree, parseFrame, PartRef } from "./frame.js";
import { damagedStateError, type StateReader, type Unreadable } from "./state-reader.js";
import { damagedFrame, parseStoredJson, parseStoredString } from "./stored-json.js";
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
  return (await new Decoder(new BoundedReader(reader), holes).decode([root]))[0] as Shadow;
}

/** A part of a state whose frame is parsed, and the JSON pointer to it. */
export interface FramePart {
  readonly tree: FrameTree;
  readonly path: string;
}

/**
 * Reads several parts with shared requests. The trees become parts of the shadows and must not be used afterwards. Throws
 * `DAMAGED` at the first part that cannot be read, unless `holes` is passed.
 */
export async function decodeParts(parts: readonly FramePart[], reader: StateReader, holes?: Hole[]): Promise<Shadow[]> {
  return new Decoder(new BoundedReader(reader), holes).decode(parts);
}

/** The maximum number of elements below damaged nodes, in all lists of a state. A partial state contains them as holes. */
const MAX_LOST_ITEMS = 1 << 18;

/** A list, text, value or blob that is still to be read, and where the result belongs. */
interface Job {
  readonly ref: PartRef;
  readonly path: string;
  /** The number of levels of the state around it. */
  readonly depth: number;
  readonly put: (shadow: Shadow) => void;
  /** Adds to the size of the element or value that contains it. */
  readonly grow: (bytes: number) => void;
}

/** The result of parsing a frame that cannot be read. A class, because parsed JSON can have any keys. */
class Damage {
  constructor(readonly reason: string) {}
}

function toDamage(error: unknown): Damage {
  if (isSavepointError(error, "DAMAGED")) return new Damage(error.message);
  throw error;
}

/** A segment of a string. */
function parseText(frame: Frame | Unreadable): string | Damage {
  if (!("json" in frame)) return new Damage(frame.unreadable);
  try {
    return parseStoredString(frame.json);
  } catch (error) {
    return toDamage(error);
  }
}

class Decoder {
  #jobs: Job[] = [];
  /** Size updates, applied in reverse when everything is read: the size of a nested node must be complete before it is added. */
  readonly #growths: (() => void)[] = [];
  /** The number of elements below damaged nodes so far. */
  #lostItems = 0;
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
        0,
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
  #place(
    tree: FrameTree,
    path: string,
    depth: number,
    put: (shadow: Shadow) => void,
    grow: (bytes: number) => void,
  ): void {
    if (tree instanceof PartRef) {
      this.#jobs.push({ ref: tree, path, depth, put, grow });
      return;
    }
    put(tree as Shadow);
    if (typeof tree !== "object" || tree === null) return;
    const parts = tree as { [key: string]: FrameTree };
    for (const key of Object.keys(parts)) {
      const part = parts[key] as FrameTree;
      if (typeof part !== "object" || part === null) continue;
      const putPart = (shadow: Shadow): void => setKey(parts as ShadowObject, key, shadow);
      this.#place(part, joinPointer(path, key), depth + 1, putPart, grow);
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
    for (const { tape, count } of pieces) if (tape === LOST_TAPE) this.#lostItems += count;
    if (this.#lostItems > MAX_LOST_ITEMS) {
      throw damagedStateError("", `the nodes that list ${this.#lostItems} items are damaged`);
    }
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
      while (index >= end) end += pieces[++piece]?.count ?? Number.POSITIVE_INFINITY;
      const frame = frames[index] as Frame | Unreadable;
      const parsed = this.#parse(frame, (pieces[piece] as Piece).tape, job.depth, keyed);
      if (parsed instanceof Damage) {
        this.#reportHole(keyed ? job.path : joinPointer(job.path, index), parsed.reason);
        // An array keeps the indexes of its intact elements. An object has lost the key as well.
        if (kind === "array") {
          elements.push(null);
          sizes.push(4);
        }
        continue;
      }
      const { json, refs } = frame as Frame;
      const element = keyed ? (parsed as [string, FrameTree])[1] : parsed;
      if (keyed) keys.push((parsed as [string, FrameTree])[0]);
      elements.push(element as Shadow);
      sizes.push(Buffer.byteLength(json) - (kind === "object" ? 2 : 0));
      if (refs !== "") {
        const at = elements.length - 1;
        this.#place(
          element,
          joinPointer(job.path, keyed ? (keys[at] as string) : index),
          job.depth + 1,
          (shadow) => (elements[at] = shadow),
          (bytes) => list.setSize(at, list.sizeOf(at) + bytes),
        );
      }
    }
    const list = new ListNode(kind, elements, keyed ? keys : undefined, { tree: new PieceTree(tree), sizes });
    this.#put(job, list);
  }

  /** Parses an element of a list; with `keyed` an entry of an object, which is its key and its value. */
  #parse(frame: Frame | Unreadable, tape: number, depth: number, keyed: boolean): FrameTree | Damage {
    if (!("json" in frame)) return new Damage(frame.unreadable);
    try {
      const tree = parseFrame(frame, tape, depth);
      const isEntry = Array.isArray(tree) && typeof tree[0] === "string" && tree[1] !== undefined;
      if (keyed && !isEntry) throw damagedFrame("it is not an entry of an object");
      return tree;
    } catch (error) {
      return toDamage(error);
    }
  }

  #putText(job: Job, tree: TreeNode, frames: readonly (Frame | Unreadable)[]): void {
    const chunks: string[] = [];
    for (const frame of frames) {
      const chunk = parseText(frame);
      if (typeof chunk === "string") chunks.push(chunk);
      else this.#reportHole(job.path, chunk.reason);
    }
    const text = chunks.join("");
    const dense = job.ref.kind === "dense";
    if (dense && chunks.length < frames.length) return job.put(null);
    const sizes = frames.map((frame, index) => {
      if (dense || !("json" in frame)) return Buffer.byteLength(chunks[index] ?? "");
      return Buffer.byteLength(frame.json) - 2;
    });
    const lengths = chunks.map((chunk) => chunk.length);
    const value = dense ? this.#parseDense(job, text) : undefined;
    this.#put(job, new TextNode(text, lengths, value, { tree: new PieceTree(tree), sizes }));
  }

  #parseDense(job: Job, text: string): Shadow {
    try {
      return parseStoredJson(text, job.depth);
    } catch (error) {
      this.#reportHole(job.path, toDamage(error).reason);
      return null;
    }
  }

  #putValue(job: Job, piece: Piece | undefined, frame: Frame | Unreadable = { unreadable: "it is missing" }): void {
    const parsed = this.#parse(frame, piece?.tape ?? LOST_TAPE, job.depth, false);
    if (!piece || !("json" in frame) || parsed instanceof Damage) {
      this.#reportHole(job.path, parsed instanceof Damage ? parsed.reason : "it is missing");
      return job.put(null);
    }
    const node = new ValueNode(null);
    node.piece = piece;
    node.bytes = Buffer.byteLength(frame.json);
    this.#place(
      parsed,
      job.path,
      job.depth + 1,
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
