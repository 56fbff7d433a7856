/** Decides when a tape has enough unpacked items to be packed, and where they begin. */
import { LruMap } from "../../util/index.js";
import type { ItemBatch } from "../contract/index.js";
import { CHUNK_BYTES, CHUNK_ITEMS } from "./chunk-groups.js";
import { RAW } from "./compression.js";

/** The most tapes that are tracked. A tape that is dropped starts at zero when it gets its next item. */
const MAX_TAPES = 10_000;

interface TapeBacklog {
  items: number;
  bytes: number;
  /** All items before this one are packed; unknown until the tape is first packed. */
  firstUnpacked?: number;
}

/** Counts the unpacked items of each tape. */
export class PackBacklog {
  readonly #tapes = new LruMap<string, TapeBacklog>(MAX_TAPES);
  readonly #chunks: number;

  /** @param chunks how many full chunks of a tape are packed at once */
  constructor(chunks = 1) {
    this.#chunks = chunks;
  }

  /** Adds committed items. Returns `true`, and counts from zero again, when there is enough to pack. */
  add({ tape, items }: ItemBatch): boolean {
    let backlog = this.#tapes.peek(tape);
    if (!backlog) this.#tapes.set(tape, (backlog = { items: 0, bytes: 0 }));
    backlog.items += items.length;
    for (const { json } of items) backlog.bytes += json.length;
    if (backlog.items < this.#chunks * CHUNK_ITEMS && backlog.bytes < this.#chunks * CHUNK_BYTES) return false;
    backlog.items = backlog.bytes = 0;
    return true;
  }

  /** The first item of a tape that is not packed; `undefined` if it is unknown. */
  firstUnpacked(tape: string): number | undefined {
    return this.#tapes.peek(tape)?.firstUnpacked;
  }

  setFirstUnpacked(tape: string, item: number): void {
    const backlog = this.#tapes.peek(tape);
    if (backlog) backlog.firstUnpacked = item;
  }
}

/** The place and size of a chunk, without its contents. */
export interface ChunkSize {
  readonly first: number;
  readonly count: number;
  readonly codec: number;
  readonly bytes: number;
}

/**
 * The first item of a tape that is not packed.
 *
 * @param newestFirst the last chunks of the tape, in reverse order
 */
export function findFirstUnpacked(newestFirst: readonly ChunkSize[]): number {
  const packed = newestFirst.find(
    ({ count, codec, bytes }) => count >= CHUNK_ITEMS / 2 || bytes >= CHUNK_BYTES / 2 || codec !== RAW,
  );
  return packed ? packed.first + packed.count : (newestFirst.at(-1)?.first ?? 0);
}
