/** Reading the items and blobs of a bundle from the store. */
import type { Context } from "../context.js";
import type { Span } from "../util/index.js";
import type { BundleFrame, BundleLine } from "./format.js";

/** Items per read. */
const READ_ITEMS = 256;
/** Characters per line; a single longer item gets a line of its own. */
const LINE_LENGTH = 1 << 18;

/** Lines with the items in these spans of a tape. Items that cannot be read become holes. @param tape its number in the bundle */
export async function* itemLines(
  { store }: Context,
  tapeName: string,
  tape: number,
  spans: readonly Span[],
): AsyncGenerator<BundleLine> {
  for (const { start, count } of spans) {
    for (let from = start; from < start + count; from += READ_ITEMS) {
      const size = Math.min(READ_ITEMS, start + count - from);
      const found = await store.items([{ tape: tapeName, start: from, count: size }]);
      let [first, frames, length] = [from, [] as BundleFrame[], 0];
      const flush = function* (next: number): Generator<BundleLine> {
        if (frames.length > 0) yield { items: [tape, first, frames] };
        [first, frames, length] = [next, [], 0];
      };
      for (const [index, frame] of found.entries()) {
        const item = from + index;
        if ("unreadable" in frame) {
          yield* flush(item + 1);
          yield { hole: [tape, item], reason: frame.unreadable };
          continue;
        }
        frames.push(frame.refs === "" ? [frame.json] : [frame.json, frame.refs]);
        length += frame.json.length;
        if (length > LINE_LENGTH) yield* flush(item + 1);
      }
      yield* flush(0);
    }
  }
}

/** Lines with these blobs. @param written the blobs that the bundle already has; each is written once */
export async function* blobLines(
  { store }: Context,
  hashes: Iterable<string>,
  written: Set<string>,
): AsyncGenerator<BundleLine> {
  for (const hash of hashes) {
    if (written.has(hash)) continue;
    const bytes = await store.blob(hash);
    if ("unreadable" in bytes) {
      yield { hole: hash, reason: bytes.unreadable };
      continue;
    }
    written.add(hash);
    yield { blob: hash, bytes: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64") };
  }
}
