/** Recognises ranges that name more items than a tape can have. */
import type { ItemSpan, Store } from "../contract/index.js";

/** For spans up to this length, the size of the tape is not checked. */
const SHORT_SPAN = 1 << 16;

/**
 * Whether a span certainly names items that do not exist. A damaged or forged reference can name billions of items, and a
 * loop over them would take too long or exhaust the memory. Every stored item takes at least one byte, so the bytes of a tape
 * bound its items.
 */
export async function exceedsTape(store: Store, { tape, count }: ItemSpan): Promise<boolean> {
  if (count <= SHORT_SPAN) return false;
  return count > (await store.bytesOf({ records: [], tapes: [{ from: tape, to: `${tape}\u0001` }] }));
}
