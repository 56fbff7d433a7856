/** Decides when a tape has enough unpacked items to be packed, and where they begin. Packs it in the background then. */
import { isSavepointError } from "../../errors.js";
import { LruMap } from "../../util/index.js";
import type { Freed } from "../contract/index.js";
import type { NumberedItems } from "../shared/index.js";
import type { ChunkRow } from "./chunk-codec.js";
import { CHUNK_BYTES, CHUNK_ITEMS } from "./chunk-groups.js";
import { isCompressed } from "./compression.js";

/** The most tapes that are tracked. A tape that is dropped starts at zero when it gets its next item. */
const MAX_TAPES = 10_000;

interface TapeBacklog {
  items: number;
  bytes: number;
  /** All items before this one are packed; unknown until the tape is first packed. */
  firstUnpacked?: number;
}

/** How a store packs its tapes in the background. */
export interface BackgroundPacking {
  /** How many full chunks of a tape are packed together. */
  readonly chunks: number;
  /**
   * Packs a tape and returns the first item that is not packed afterwards.
   *
   * @param from the first item that is not packed; `undefined` if it is unknown
   */
  readonly pack: (tape: string, from: number | undefined) => Promise<number>;
  /** Called if packing fails. The chunks stay small then, and are packed with the next full one. */
  readonly onFailure: (error: unknown) => void;
}

/** Counts the unpacked items of each tape, and packs one tape after another. */
export class PackBacklog {
  readonly #tapes = new LruMap<string, TapeBacklog>(MAX_TAPES);
  readonly #packing: BackgroundPacking;
  #work: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(packing: BackgroundPacking) {
    this.#packing = packing;
  }

  /** Adds committed items. When there is enough to pack, counts from zero again and packs their tape. */
  add({ tape, items }: NumberedItems): void {
    const { chunks } = this.#packing;
    let backlog = this.#tapes.peek(tape);
    if (!backlog) this.#tapes.set(tape, (backlog = { items: 0, bytes: 0 }));
    backlog.items += items.length;
    for (const { json } of items) backlog.bytes += json.length;
    if (backlog.items < chunks * CHUNK_ITEMS && backlog.bytes < chunks * CHUNK_BYTES) return;
    backlog.items = backlog.bytes = 0;
    this.#work = this.#work.then(() => this.#pack(tape));
  }

  async #pack(tape: string): Promise<void> {
    if (this.#isClosed) return;
    try {
      const backlog = this.#tapes.peek(tape);
      const next = await this.#packing.pack(tape, backlog?.firstUnpacked);
      if (backlog) backlog.firstUnpacked = next;
    } catch (error) {
      // Writes of other processes, and closing, have priority. Any other failure soon fails a commit as well.
      if (isSavepointError(error, "BUSY") || isSavepointError(error, "CLOSED") || this.#isClosed) return;
      this.#packing.onFailure(error);
    }
  }

  /** Resolves when no packing is in progress. */
  async idle(): Promise<void> {
    await this.#work;
  }

  /** Stops packing, and waits for what is in progress. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#work;
  }
}

/** The place and size of a chunk, without its contents. */
export interface ChunkSize extends Pick<ChunkRow, "first" | "count" | "codec"> {
  readonly bytes: number;
}

/**
 * What is freed if this many items of a chunk are kept. The bytes are a share of the chunk: the rest may take more space than
 * before, because it is not compressed yet.
 */
export function freedPart({ count, bytes }: ChunkSize, kept: number): Freed {
  return { items: count - kept, bytes: Math.round((bytes * (count - kept)) / count) };
}

/**
 * The first item of a tape that is not packed.
 *
 * @param newestFirst the last chunks of the tape, in reverse order
 */
export function findFirstUnpacked(newestFirst: readonly ChunkSize[]): number {
  const packed = newestFirst.find(
    ({ count, codec, bytes }) => count >= CHUNK_ITEMS / 2 || bytes >= CHUNK_BYTES / 2 || isCompressed(codec),
  );
  return packed ? packed.first + packed.count : (newestFirst.at(-1)?.first ?? 0);
}
