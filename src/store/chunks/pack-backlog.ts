/** Counts the items that were not packed yet, tape by tape, so that each is packed when full runs have gathered. */
import type { ItemBatch } from "../contract/index.js";
import { RAW } from "./compression.js";
import { CHUNK_BYTES, CHUNK_ITEMS } from "./chunk-groups.js";

/** Tapes whose new items are counted. Of more of them, those that have waited longest are counted anew. */
const MAX_TAPES = 10_000;

interface Loose {
  items: number;
  bytes: number;
  /** All before this number has been packed; unknown until the tape is first packed. */
  from?: number;
}

export class PackBacklog {
  readonly #tapes = new Map<string, Loose>();
  readonly #runs: number;

  /** @param runs how many full runs are to gather before they are packed */
  constructor(runs = 1) {
    this.#runs = runs;
  }

  /** Notes items that were committed; `true` when enough has gathered, and they are counted anew. */
  add({ tape, items }: ItemBatch): boolean {
    let loose = this.#tapes.get(tape);
    if (!loose) {
      this.#tapes.set(tape, (loose = { items: 0, bytes: 0 }));
      const [oldest] = this.#tapes.keys();
      if (this.#tapes.size > MAX_TAPES && oldest !== undefined) this.#tapes.delete(oldest);
    }
    loose.items += items.length;
    for (const { json } of items) loose.bytes += json.length;
    if (loose.items < this.#runs * CHUNK_ITEMS && loose.bytes < this.#runs * CHUNK_BYTES) return false;
    loose.items = loose.bytes = 0;
    return true;
  }

  /** Where the items of a tape begin that are not packed, if that is known. */
  firstUnpacked(tape: string): number | undefined {
    return this.#tapes.get(tape)?.from;
  }

  setFirstUnpacked(tape: string, from: number): void {
    const loose = this.#tapes.get(tape);
    if (loose) loose.from = from;
  }
}

/** A row of items as it is looked at from the end of its tape. */
export interface ChunkSize {
  readonly first: number;
  readonly count: number;
  readonly codec: number;
  readonly bytes: number;
}

/** The first of the small rows at the end of a tape: all before it has been packed. */
export function findFirstUnpacked(newestFirst: readonly ChunkSize[]): number {
  const packed = newestFirst.find(
    ({ count, codec, bytes }) => count >= CHUNK_ITEMS / 2 || bytes >= CHUNK_BYTES / 2 || codec !== RAW,
  );
  return packed ? packed.first + packed.count : (newestFirst.at(-1)?.first ?? 0);
}
