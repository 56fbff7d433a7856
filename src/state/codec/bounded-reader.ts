/**
 * Bounds what one traversal of a stored state can read. A range of a few characters can name billions of items, and shared
 * items are decoded once for every path that leads to them: neither may exhaust the memory.
 *
 * Two numbers are counted: the items that are placed in the state, and the items that are found in the store. The first may be
 * several times the second, but not without limit. The holes of a partial state are bounded in decode.ts.
 */
import { coalesce, type Piece, splitPieces } from "../tree/index.js";
import type { Frame } from "./frame.js";
import { damagedStateError, type StateReader, type Unreadable } from "./state-reader.js";

/** Items per request. A longer range is read in parts, so that one that does not exist is noticed early. */
const REQUEST_ITEMS = 1 << 13;
/** What every traversal may decode, whatever the store has. */
const FREE_ITEMS = 1 << 14;
const FREE_BYTES = 1 << 28;
/** How many missing items are returned as unreadable before the traversal fails, plus `MAX_REPEATS` for each item found. */
const FREE_MISSING_ITEMS = 1 << 16;
/** Repeated blobs: equal images in many messages are one blob. Each place gets a copy. */
const FREE_BLOB_BYTES = 2 ** 31;
const MAX_BLOB_REPEATS = 64;
/** How often, on average, a traversal may decode each item that it found, in addition to the free amounts above. */
const MAX_REPEATS = 16;

/** A reader for one traversal. It throws `DAMAGED` when the traversal exceeds its bounds. */
export class BoundedReader implements StateReader {
  readonly #reader: StateReader;
  readonly #blobs = new Set<string>();
  #placedBlobBytes = 0;
  #foundBlobBytes = 0;
  #missingItems = 0;
  #placed = { items: 0, bytes: 0 };
  #found = { items: 0, bytes: 0 };

  constructor(reader: StateReader) {
    this.#reader = reader;
  }

  async items(pieces: readonly Piece[]): Promise<readonly (Frame | Unreadable)[]> {
    const total = pieces.reduce((sum, { count }) => sum + count, 0);
    const isRepeating = overlap(pieces);
    if (total <= REQUEST_ITEMS && !isRepeating) return this.#read(pieces);
    const frames: (Frame | Unreadable)[] = [];
    for (const part of splitRequests(pieces)) {
      for (const frame of await (isRepeating ? this.#readOnce(part) : this.#read(part))) frames.push(frame);
    }
    return frames;
  }

  async blob(hash: string): Promise<Uint8Array | Unreadable> {
    const content = await this.#reader.blob(hash);
    const bytes = "unreadable" in content ? 0 : content.length;
    if (!this.#blobs.has(hash)) this.#foundBlobBytes += bytes;
    this.#blobs.add(hash);
    this.#placedBlobBytes += bytes;
    if (this.#placedBlobBytes > FREE_BLOB_BYTES + MAX_BLOB_REPEATS * this.#foundBlobBytes) throw tooMuch();
    return content;
  }

  /** Reads items each of which is named once. */
  async #read(pieces: readonly Piece[]): Promise<readonly (Frame | Unreadable)[]> {
    const frames = await this.#reader.items(pieces);
    let [found, bytes] = [0, 0];
    for (const frame of frames) {
      if (!("json" in frame)) continue;
      found++;
      bytes += frame.json.length;
    }
    this.#missingItems += frames.length - found;
    this.#count(found, found, bytes, bytes);
    return frames;
  }

  /** Reads items that may be named more than once: each is read once, and placed as often as it is named. */
  async #readOnce(pieces: readonly Piece[]): Promise<readonly (Frame | Unreadable)[]> {
    const places = splitPieces(pieces);
    const distinct = [...new Map(places.map((place) => [keyOf(place), place])).values()];
    distinct.sort((a, b) => a.tape - b.tape || a.start - b.start);
    const frames = await this.#read(coalesce(distinct));
    const byPlace = new Map(distinct.map((place, index) => [keyOf(place), frames[index]]));
    const placed = places.map((place) => byPlace.get(keyOf(place)) ?? { unreadable: "it is missing" });
    this.#count(placed.length - frames.length, 0, lengthOf(placed) - lengthOf(frames), 0);
    return placed;
  }

  #count(placedItems: number, foundItems: number, placedBytes: number, foundBytes: number): void {
    this.#placed.items += placedItems;
    this.#placed.bytes += placedBytes;
    this.#found.items += foundItems;
    this.#found.bytes += foundBytes;
    const isTooMuch =
      this.#missingItems > FREE_MISSING_ITEMS + MAX_REPEATS * this.#found.items ||
      this.#placed.items > FREE_ITEMS + MAX_REPEATS * this.#found.items ||
      this.#placed.bytes > FREE_BYTES + MAX_REPEATS * this.#found.bytes;
    if (isTooMuch) throw tooMuch();
  }
}

function tooMuch(): Error {
  return damagedStateError("", "it refers to far more data than is stored");
}

function overlap(pieces: readonly Piece[]): boolean {
  if (pieces.length < 2) return false;
  // The same range twice is found without sorting all of them.
  const places = new Set<string>();
  for (const piece of pieces) if (places.size === places.add(keyOf(piece)).size) return true;
  const sorted = [...pieces].sort((a, b) => a.tape - b.tape || a.start - b.start);
  return sorted.some((piece, index) => {
    const before = sorted[index - 1];
    return before !== undefined && before.tape === piece.tape && before.start + before.count > piece.start;
  });
}

/** Cuts ranges into requests of a bounded size. */
function* splitRequests(pieces: readonly Piece[]): Generator<Piece[]> {
  let request: Piece[] = [];
  let room = REQUEST_ITEMS;
  for (const { tape, start, count } of pieces) {
    for (let done = 0; done < count;) {
      const size = Math.min(count - done, room);
      request.push({ tape, start: start + done, count: size });
      done += size;
      room -= size;
      if (room > 0) continue;
      yield request;
      [request, room] = [[], REQUEST_ITEMS];
    }
  }
  if (request.length > 0) yield request;
}

function lengthOf(frames: readonly (Frame | Unreadable)[]): number {
  let length = 0;
  for (const frame of frames) if ("json" in frame) length += frame.json.length;
  return length;
}

function keyOf({ tape, start }: Piece): string {
  return `${tape}:${start}`;
}
