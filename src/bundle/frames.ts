/** The lines of a section: reading items and blobs from the store, and starting again if the section changes meanwhile. */
import type { Context } from "../context.js";
import { hashBytes } from "../state/index.js";
import type { Span } from "../util/index.js";
import type { BundleFrame, BundleLine } from "./format.js";

/** The blobs that a bundle has: their names in the bundle, by those in the store. */
export type WrittenBlobs = Map<string, string>;

/** Items per read. */
const READ_ITEMS = 256;
/** Characters per line; a single longer item gets a line of its own. */
const LINE_LENGTH = 1 << 18;
/** Unreadable items in a row after which the rest of a span is not read. */
const MAX_MISSING_ITEMS = 1 << 16;
/** If a section changes during every attempt, the last one is exported with its holes. */
const MAX_ATTEMPTS = 20;

/**
 * Exports the records of a section as they were at one moment. What is missing then may have been removed meanwhile: if the
 * records have changed, the section is started again. If nothing has changed, it is damage.
 *
 * @param read reads the records again; `undefined` if they were deleted
 * @returns whether the records still exist. If not, the lines are withdrawn
 */
export async function* exportUnchanged<Snapshot extends { readonly fingerprint: string }>(
  first: Snapshot,
  read: () => Promise<Snapshot | undefined>,
  linesOf: (snapshot: Snapshot) => AsyncGenerator<BundleLine>,
): AsyncGenerator<BundleLine, boolean> {
  let snapshot = first;
  for (let attempt = 1; ; attempt++) {
    let holes = 0;
    for await (const line of linesOf(snapshot)) {
      if ("hole" in line) holes++;
      yield line;
    }
    const now = await read();
    if (now && (holes === 0 || now.fingerprint === snapshot.fingerprint || attempt === MAX_ATTEMPTS)) return true;
    yield { again: true };
    if (!now) return false;
    snapshot = now;
  }
}

/**
 * Lines with the items in these spans of a tape. Items that cannot be read become holes.
 *
 * A forged counter can name a span of billions of items that do not exist. So the rest of a span is one hole after
 * `MAX_MISSING_ITEMS` items in a row that cannot be read.
 *
 * @param tape its number in the bundle
 */
export async function* itemLines(
  { store }: Context,
  tapeName: string,
  tape: number,
  spans: readonly Span[],
): AsyncGenerator<BundleLine> {
  for (const { start, count } of spans) {
    const end = start + count;
    // Consecutive items that cannot be read, with the reason of the first.
    let hole: { readonly first: number; readonly reason: string } | undefined;
    const closeHole = function* (next: number): Generator<BundleLine> {
      if (hole) yield { hole: [tape, hole.first, next - hole.first], reason: hole.reason };
      hole = undefined;
    };
    for (let from = start; from < end; from += READ_ITEMS) {
      if (hole && from - hole.first >= MAX_MISSING_ITEMS) break;
      const found = await store.items([{ tape: tapeName, start: from, count: Math.min(READ_ITEMS, end - from) }]);
      let [first, frames, length] = [from, [] as BundleFrame[], 0];
      const flush = function* (next: number): Generator<BundleLine> {
        if (frames.length > 0) yield { items: [tape, first, frames] };
        [first, frames, length] = [next, [], 0];
      };
      for (const [index, frame] of found.entries()) {
        const item = from + index;
        if ("unreadable" in frame) {
          yield* flush(item + 1);
          hole ??= { first: item, reason: frame.unreadable };
          continue;
        }
        yield* closeHole(item);
        frames.push(frame.refs === "" ? [frame.json] : [frame.json, frame.refs]);
        length += frame.json.length;
        if (length > LINE_LENGTH) yield* flush(item + 1);
      }
      yield* flush(0);
    }
    yield* closeHole(end);
  }
}

/** Lines with these blobs. @param written the blobs that the bundle already has, with their names there; each is written once */
export async function* blobLines(
  { store, encryption }: Context,
  hashes: Iterable<string>,
  written: WrittenBlobs,
): AsyncGenerator<BundleLine> {
  for (const hash of hashes) {
    if (written.has(hash)) continue;
    const bytes = await store.blob(hash);
    if ("unreadable" in bytes) {
      yield { hole: hash, reason: bytes.unreadable };
      continue;
    }
    const blob = encryption.isEncrypted ? hashBytes(bytes) : hash;
    written.set(hash, blob);
    yield { blob, bytes: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64") };
  }
}
