/** Recognises ranges that name more items than a tape can have. */
import type { ItemSpan, Store } from "../contract/index.js";

/** For spans up to this length, the size of the tape is not checked. */
const SHORT_SPAN = 1 << 16;

/**
 * The lengths of tapes, as far as they are needed. A damaged or forged reference can name billions of items, and a loop over them
 * would take too long or exhaust the memory. Every stored item takes at least one byte, so the bytes of a tape bound its items.
 */
export class TapeBounds {
  readonly #store: Store;
  readonly #bytes = new Map<string, number>();

  constructor(store: Store) {
    this.#store = store;
  }

  /** Whether a span certainly names items that do not exist. */
  async isExceededBy({ tape, count }: ItemSpan): Promise<boolean> {
    if (count <= SHORT_SPAN || count <= (this.#bytes.get(tape) ?? 0)) return false;
    // The tape may have grown.
    const bytes = await this.#store.bytesOf({ records: [], tapes: [{ from: tape, to: `${tape}\u0001` }] });
    this.#bytes.set(tape, bytes);
    return count > bytes;
  }
}
