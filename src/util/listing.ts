/** Lists that are read as they are walked. */
import { validateCount } from "./validate.js";

/** Walk it with `for await`, or take all of it at once. Each walk reads anew. */
export interface Listing<T> extends AsyncIterable<T> {
  all(): Promise<T[]>;
}

export function createListing<T>(walk: () => AsyncIterable<T>): Listing<T> {
  return {
    [Symbol.asyncIterator]: () => walk()[Symbol.asyncIterator](),
    async all() {
      const found: T[] = [];
      for await (const entry of walk()) found.push(entry);
      return found;
    },
  };
}

/** At most so many entries. */
export async function* limitEntries<T>(entries: AsyncIterable<T>, limit: number): AsyncGenerator<T> {
  validateCount(limit, "`limit`");
  let left = limit;
  if (left <= 0) return;
  for await (const entry of entries) {
    yield entry;
    if (--left <= 0) return;
  }
}
