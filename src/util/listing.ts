/** Lists: those that are read from the store while they are iterated, and maps of lists. */
import { validateCount } from "./validate.js";

/**
 * A list that is read while it is iterated with `for await`. Each iteration reads it again.
 *
 * @example
 * for await (const session of sp.sessions.list()) console.log(session.id);
 * const sessions = await sp.sessions.list().all();
 */
export interface Listing<T> extends AsyncIterable<T> {
  /** Reads the whole list into an array. */
  all(): Promise<T[]>;
}

/** @param iterate starts a new iteration */
export function createListing<T>(iterate: () => AsyncIterable<T>): Listing<T> {
  return {
    [Symbol.asyncIterator]: () => iterate()[Symbol.asyncIterator](),
    all: () => toArray(iterate()),
  };
}

/** Reads all entries into an array. */
export async function toArray<T>(entries: AsyncIterable<T>): Promise<T[]> {
  const array: T[] = [];
  for await (const entry of entries) array.push(entry);
  return array;
}

/** Yields at most `limit` entries and reads no further. */
export async function* limitEntries<T>(entries: AsyncIterable<T>, limit: number): AsyncGenerator<T> {
  validateCount(limit, "`limit`");
  let left = limit;
  if (left <= 0) return;
  for await (const entry of entries) {
    yield entry;
    if (--left <= 0) return;
  }
}
