/** Things to store, and reading them all back. */
import { createHash } from "node:crypto";
import type { Frame, KeyRange, Store, StoredRecord, UnreadableRecord } from "../store/index.js";
import { isUnreadable } from "./assertions.js";

/** All keys that the kit uses; the last code point itself is used by none. */
export const EVERYTHING: KeyRange = { from: "", to: "\u{10ffff}" };

export function frame(value: unknown, refs = ""): Frame {
  return { json: JSON.stringify(value), refs };
}

/** Frames that can be told apart. */
export function frames(count: number, from = 0): Frame[] {
  return Array.from({ length: count }, (_, index) => frame({ n: from + index }));
}

export function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** Bytes that look random, the same ones for the same seed. */
export function bytesOf(length: number, seed = 1): Uint8Array {
  const bytes = new Uint8Array(length);
  let state = seed;
  for (let index = 0; index < length; index++) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    bytes[index] = state >>> 16;
  }
  return bytes;
}

/** A blob as a commit takes it. */
export function blobOf(text: string): { hash: string; bytes: Uint8Array } {
  const bytes = new TextEncoder().encode(text);
  return { hash: sha256(bytes), bytes };
}

/** What a store holds, in a form that can be compared. Items are read up to number `ITEMS_READ` of every tape. */
export interface StoreContent {
  readonly records: readonly (StoredRecord | UnreadableRecord)[];
  readonly tapes: Readonly<Record<string, readonly (Frame | "missing")[]>>;
  readonly refs: Readonly<Record<string, unknown>>;
  readonly blobs: Readonly<Record<string, string>>;
}

const ITEMS_READ = 400;

/** Everything in a store, read the way the layers above do it. */
export async function contentOf(store: Store): Promise<StoreContent> {
  const tapes: Record<string, (Frame | "missing")[]> = {};
  const refs: Record<string, unknown> = {};
  for (const tape of await store.tapes(EVERYTHING)) {
    const span = { tape, start: 0, count: ITEMS_READ };
    tapes[tape] = (await store.items([span])).map((item) => (isUnreadable(item) ? "missing" : item));
    refs[tape] = await store.itemRefs(span);
  }
  const blobs: Record<string, string> = {};
  for (const hash of await store.blobs({ after: "", limit: 10_000 })) {
    const bytes = await store.blob(hash);
    blobs[hash] = isUnreadable(bytes) ? bytes.unreadable : sha256(bytes);
  }
  return { records: await listAll(store, EVERYTHING), tapes, refs, blobs };
}

/** A whole range, page by page. */
export async function listAll(
  store: Store,
  range: KeyRange,
  limit = 500,
): Promise<(StoredRecord | UnreadableRecord)[]> {
  const found: (StoredRecord | UnreadableRecord)[] = [];
  for (let from = range.from; ;) {
    const page = await store.list({ from, to: range.to }, { limit });
    found.push(...page);
    const last = page.at(-1);
    if (!last || page.length < limit) return found;
    // The smallest key behind the last one, by the order of bytes.
    from = `${last.key}\u0001`;
  }
}
