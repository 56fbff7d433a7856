/** Sample data, and writing and reading the content of a store. */
import { createHash } from "node:crypto";
import type {
  Commit,
  CommitResult,
  Frame,
  ItemBatch,
  KeyRange,
  Put,
  Store,
  StoredRecord,
  UnreadableRecord,
} from "../store/index.js";
import { isUnreadable } from "./assertions.js";

/** The range of all keys that the kit uses. None of them is the last code point. */
export const EVERYTHING: KeyRange = { from: "", to: "\u{10ffff}" };

export function frame(value: unknown, refs = ""): Frame {
  return { json: JSON.stringify(value), refs };
}

/** Distinct frames, numbered from `from`. */
export function frames(count: number, from = 0): Frame[] {
  return Array.from({ length: count }, (_, index) => frame({ n: from + index }));
}

export function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** Pseudo-random bytes: equal for equal seeds. */
export function bytesOf(length: number, seed = 1): Uint8Array {
  const bytes = new Uint8Array(length);
  let state = seed;
  for (let index = 0; index < length; index++) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    bytes[index] = state >>> 16;
  }
  return bytes;
}

/** A blob for a commit. */
export function blobOf(text: string): { hash: string; bytes: Uint8Array } {
  const bytes = new TextEncoder().encode(text);
  return { hash: sha256(bytes), bytes };
}

/** Puts of these values, by key. */
export function putsOf(values: Readonly<Record<string, string>>): Put[] {
  return Object.entries(values).map(([key, value]) => ({ key, value }));
}

/** A commit that replaces the value of a record if it is still `from`; `undefined` means that there is no record. */
export function swap(key: string, from: string | undefined, to: string, tag?: string): Commit {
  return { checks: [{ key, value: from, ...(tag !== undefined && { tag }) }], puts: [{ key, value: to }] };
}

/** Writes consecutive items of a tape, the first of which gets the number `first`. */
export function writeItems(store: Store, tape: string, first: number, items: readonly Frame[]): Promise<CommitResult> {
  return store.commit({ items: [{ tape, first, items }] });
}

/** The items of a batch, the first of which has this number. */
export function framesOf({ items }: ItemBatch, first: number): readonly Frame[] {
  return typeof items === "function" ? items(first) : items;
}

/** Appends items to a tape, with numbers from a counter. */
export function appendItems(
  store: Store,
  tape: string,
  counter: string,
  items: readonly Frame[],
): Promise<CommitResult> {
  return store.commit({ items: [{ tape, counter, items }] });
}

export function keysOf(records: readonly { readonly key: string }[]): string[] {
  return records.map(({ key }) => key);
}

/** The content of a store in a comparable form. Of every tape, the first `ITEMS_READ` items are read. */
export interface StoreContent {
  readonly records: readonly (StoredRecord | UnreadableRecord)[];
  readonly tapes: Readonly<Record<string, readonly (Frame | "missing")[]>>;
  readonly refs: Readonly<Record<string, unknown>>;
  readonly blobs: Readonly<Record<string, string>>;
}

const ITEMS_READ = 400;

/** Reads the content of a store. */
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

/** Lists a range page by page. */
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
    // The smallest key after the last one in byte order. No key of the kit contains NUL.
    from = `${last.key}\u0001`;
  }
}
