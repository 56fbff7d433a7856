/** Iterates over a range of records, page by page. */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { KeyRange, Store, StoredRecord, UnreadableRecord } from "../contract/index.js";

type ListStore = Pick<Store, "list">;

/** The size of the first page. It is small because many scans end early; the pages grow so that a long scan needs few. */
export const FIRST_PAGE_SIZE = 16;
const MAX_PAGE_SIZE = 1024;

/** The size of the page after one of this size. */
export function nextPageSize(size: number): number {
  return Math.min(8 * size, MAX_PAGE_SIZE);
}

/** A record, or the reason why it cannot be read. */
export type RecordResult = StoredRecord | UnreadableRecord;

/** Iterates over the pages of a range. */
export async function* scanPages(store: ListStore, range: KeyRange, reverse = false): AsyncGenerator<RecordResult[]> {
  let { from, to } = range;
  for (let limit = FIRST_PAGE_SIZE; ; limit = nextPageSize(limit)) {
    const page = await store.list({ from, to }, { limit, reverse });
    const last = page.at(-1);
    if (last) yield page;
    if (!last || page.length < limit) return;
    // A local store answers synchronously: without this, a long iteration would block the event loop.
    await nextTurn();
    if (reverse) to = last.key;
    // Keys contain no NUL, so no key lies between the last one and this.
    else from = `${last.key}\u0001`;
  }
}

/** Iterates over the records of a range. */
export async function* scan(store: ListStore, range: KeyRange, reverse = false): AsyncGenerator<RecordResult> {
  for await (const page of scanPages(store, range, reverse)) yield* page;
}
