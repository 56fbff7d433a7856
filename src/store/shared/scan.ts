/** Walking a range of records, page by page. */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { KeyRange, Store, StoredRecord, UnreadableRecord } from "../contract/index.js";

type Listed = Pick<Store, "list">;

/** The first page is small, because many walks end early; who walks on gets larger ones, and a long way takes few. */
export const FIRST_PAGE_SIZE = 16;
const LARGEST_PAGE = 1024;

export function nextPageSize(size: number): number {
  return Math.min(8 * size, LARGEST_PAGE);
}

export type RecordResult = StoredRecord | UnreadableRecord;

/** The records of a range, in pages. */
export async function* scanPages(store: Listed, range: KeyRange, reverse = false): AsyncGenerator<RecordResult[]> {
  let { from, to } = range;
  for (let limit = FIRST_PAGE_SIZE; ; limit = nextPageSize(limit)) {
    const page = await store.list({ from, to }, { limit, reverse });
    const last = page.at(-1);
    if (last) yield page;
    if (!last || page.length < limit) return;
    // A local store answers synchronously: without this, a long iteration would block the event loop.
    await nextTurn();
    if (reverse) to = last.key;
    // No key continues with a character below this one.
    else from = `${last.key}\u0001`;
  }
}

/** The records of a range. */
export async function* scan(store: Listed, range: KeyRange, reverse = false): AsyncGenerator<RecordResult> {
  for await (const page of scanPages(store, range, reverse)) yield* page;
}
