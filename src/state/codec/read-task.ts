/**
 * Batched reads: one request to the store serves many parts of a traversal.
 *
 * A task is a generator that yields the ranges that it needs next and is resumed with their items. Tasks that run together
 * share each request, so the number of requests is the depth of the traversal and not its size.
 */
import { coalesce, type Path, pathToPointer, type Piece, splitPieces } from "../tree/index.js";
import type { Frame } from "./frame.js";
import { damagedStateError, type StateReader, type Unreadable } from "./state-reader.js";

/** A computation of a `T` that reads items. */
export type ReadTask<T> = Generator<readonly Piece[], T, readonly (Frame | Unreadable)[]>;

/** Runs a task with a reader. */
export async function runReadTask<T>(task: ReadTask<T>, reader: StateReader): Promise<T> {
  let step = task.next([]);
  while (!step.done) step = task.next(await reader.items(step.value));
  return step.value;
}

/** Runs tasks concurrently: the ranges that they need at the same time are read with one request. */
export function* runTogether<T>(tasks: readonly ReadTask<T>[]): ReadTask<T[]> {
  const steps = tasks.map((task) => task.next([]));
  for (;;) {
    if (steps.every((step) => step.done)) return steps.map((step) => step.value as T);
    const items = yield steps.flatMap((step) => (step.done ? [] : step.value));
    let from = 0;
    for (const [index, step] of steps.entries()) {
      if (step.done) continue;
      const count = countItems(step.value);
      steps[index] = (tasks[index] as ReadTask<T>).next(items.slice(from, from + count));
      from += count;
    }
  }
}

/**
 * Reads the items of some ranges. Throws `DAMAGED` if one cannot be read.
 *
 * @param pathOf the path of an item in the state, for the error
 */
export function* readStoredItems(
  pieces: readonly Piece[],
  pathOf: (index: number) => Path | undefined,
): ReadTask<StoredItem[]> {
  if (pieces.length === 0) return [];
  const frames = yield pieces;
  return splitPieces(pieces).map(({ tape }, index) => {
    const frame = frames[index] ?? { unreadable: "it is missing" };
    if (!("json" in frame)) throw damagedStateError(pathToPointer(pathOf(index)), frame.unreadable);
    return { frame, tape };
  });
}

/** An item and its tape, which its refs do not name. */
export interface StoredItem {
  readonly frame: Frame;
  readonly tape: number;
}

/** A reader that reads nothing twice. Two states share most of their items. */
export class CachingReader implements StateReader {
  readonly #items = new Map<string, Frame | Unreadable>();
  readonly #blobs = new Map<string, Promise<Uint8Array | Unreadable>>();

  readonly #reader: StateReader;

  constructor(reader: StateReader) {
    this.#reader = reader;
  }

  async items(pieces: readonly Piece[]): Promise<(Frame | Unreadable)[]> {
    const addresses = splitPieces(pieces);
    const missing = new Map(addresses.filter((at) => !this.#items.has(keyOf(at))).map((at) => [keyOf(at), at]));
    if (missing.size > 0) {
      const places = [...missing.values()].sort((a, b) => a.tape - b.tape || a.start - b.start);
      const found = await this.#reader.items(coalesce(places));
      for (const [index, place] of places.entries()) {
        this.#items.set(keyOf(place), found[index] ?? { unreadable: "it is missing" });
      }
    }
    return addresses.map((at) => this.#items.get(keyOf(at)) as Frame | Unreadable);
  }

  blob(hash: string): Promise<Uint8Array | Unreadable> {
    const blob = this.#blobs.get(hash) ?? this.#reader.blob(hash);
    this.#blobs.set(hash, blob);
    return blob;
  }
}

function countItems(pieces: readonly Piece[]): number {
  return pieces.reduce((sum, piece) => sum + piece.count, 0);
}

function keyOf(piece: Piece): string {
  return `${piece.tape}:${piece.start}`;
}
