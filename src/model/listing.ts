/** Lists that are read as they are walked. */

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
