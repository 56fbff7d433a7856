/**
 * Reading in rounds. Many parts of a walk want items at the same time; one request to the store answers them all.
 *
 * A task is a generator that yields the ranges it needs next and is resumed with their items. Tasks that run together
 * wait together, so the number of requests is the depth of what is read and not its size.
 */
import { damagedStateError, type StateReader, type Unreadable } from "./decode.js";
import type { Frame } from "./encode.js";
import { coalesce, type Path, pathToPointer, type Piece } from "../tree/index.js";

/** A computation that reads items on its way to a `T`. */
export type ReadTask<T> = Generator<readonly Piece[], T, readonly (Frame | Unreadable)[]>;

/** Runs a task to its end. */
export async function runReadTask<T>(task: ReadTask<T>, reader: StateReader): Promise<T> {
  let step = task.next([]);
  while (!step.done) step = task.next(await reader.items(step.value));
  return step.value;
}

/** Runs tasks side by side: what they ask for in one round is asked for at once. */
export function* runTogether<T>(tasks: readonly ReadTask<T>[]): ReadTask<T[]> {
  const steps = tasks.map((task) => task.next([]));
  for (;;) {
    const wanted = steps.map((step) => (step.done ? [] : step.value));
    if (steps.every((step) => step.done)) return steps.map((step) => step.value as T);
    const found = yield wanted.flat();
    let from = 0;
    for (const [index, step] of steps.entries()) {
      if (step.done) continue;
      const count = countItems(step.value);
      steps[index] = (tasks[index] as ReadTask<T>).next(found.slice(from, from + count));
      from += count;
    }
  }
}

/**
 * The items of some ranges.
 *
 * @param pathOf where in the state the item stands, for the error if it cannot be read
 */
export function* readStoredItems(
  pieces: readonly Piece[],
  pathOf: (index: number) => Path | undefined,
): ReadTask<StoredItem[]> {
  if (pieces.length === 0) return [];
  const frames = yield pieces;
  return addressesOf(pieces).map(({ tape }, index) => {
    const frame = frames[index] ?? { unreadable: "it is missing" };
    if (!("json" in frame)) throw damagedStateError(pathToPointer(pathOf(index)), frame.unreadable);
    return { frame, tape };
  });
}

/** An item, and the tape that its refs do not name. */
export interface StoredItem {
  readonly frame: Frame;
  readonly tape: number;
}

/** A reader that asks another for nothing twice: two states share most of what they point at. */
export class CachingReader implements StateReader {
  readonly #items = new Map<string, Frame | Unreadable>();
  readonly #blobs = new Map<string, Promise<Uint8Array | Unreadable>>();

  constructor(readonly reader: StateReader) {}

  async items(pieces: readonly Piece[]): Promise<(Frame | Unreadable)[]> {
    const wanted = addressesOf(pieces);
    const missing = new Map(wanted.filter((at) => !this.#items.has(keyOf(at))).map((at) => [keyOf(at), at]));
    if (missing.size > 0) {
      const places = [...missing.values()].sort((a, b) => a.tape - b.tape || a.start - b.start);
      const found = await this.reader.items(coalesce(places));
      for (const [index, place] of places.entries()) {
        this.#items.set(keyOf(place), found[index] ?? { unreadable: "it is missing" });
      }
    }
    return wanted.map((at) => this.#items.get(keyOf(at)) as Frame | Unreadable);
  }

  blob(hash: string): Promise<Uint8Array | Unreadable> {
    const known = this.#blobs.get(hash) ?? this.reader.blob(hash);
    this.#blobs.set(hash, known);
    return known;
  }
}

function addressesOf(pieces: readonly Piece[]): Piece[] {
  return pieces.flatMap(({ tape, start, count }) =>
    Array.from({ length: count }, (_, index) => ({ tape, start: start + index, count: 1 })),
  );
}

function countItems(pieces: readonly Piece[]): number {
  return pieces.reduce((sum, piece) => sum + piece.count, 0);
}

function keyOf(piece: Piece): string {
  return `${piece.tape}:${piece.start}`;
}
