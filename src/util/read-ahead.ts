/**
 * Runs `work` on several items concurrently and yields the results in the order of the items.
 *
 * At most `limit` items are in progress at once; later ones start while the caller handles earlier results. When the caller
 * stops or one item fails, no further item is started, and those in progress are awaited.
 */
export async function* readAhead<Item, Result>(
  items: Iterable<Item> | AsyncIterable<Item>,
  limit: number,
  work: (item: Item) => Promise<Result>,
): AsyncGenerator<Result> {
  const pending: Promise<Result>[] = [];
  try {
    for await (const item of items) {
      const result = work(item);
      // A rejection is thrown when the result is yielded; until then it must not count as unhandled.
      result.catch(() => {});
      pending.push(result);
      if (pending.length >= limit) yield await (pending.shift() as Promise<Result>);
    }
    for (let next = pending.shift(); next; next = pending.shift()) yield await next;
  } finally {
    await Promise.allSettled(pending);
  }
}
