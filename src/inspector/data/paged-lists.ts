/**
 * Pages of listings that have no cursor of their own. The listing of a client stays open between its pages, so that the next page
 * reads only its own entries.
 */
import { randomUUID } from "node:crypto";
import { type Listing, SavepointError } from "../../index.js";
import type { Page } from "../api.js";

/** How long a listing stays open without being read, in milliseconds. */
const LIFETIME = 120_000;
/** Listings that are open at the same time. Each holds a page of the store. */
const MAX_OPEN = 100;

interface OpenListing {
  readonly key: string;
  readonly iterator: AsyncIterator<unknown>;
  /** The position of the next entry. */
  position: number;
  /** An entry that was read ahead, to know whether there is a next page. */
  ahead: unknown;
  usedAt: number;
}

export class PagedLists {
  readonly #open = new Map<string, OpenListing>();

  /**
   * A page of a listing.
   *
   * @param key what is listed: a cursor of another list is rejected
   */
  async page<Entry, View>(
    key: string,
    cursor: string | undefined,
    limit: number,
    list: () => Listing<Entry>,
    toView: (entry: Entry) => View,
  ): Promise<Page<View>> {
    this.#expire();
    const listing = cursor === undefined ? await start(key, list()) : this.#resume(key, cursor);
    const entries: View[] = [];
    while (entries.length < limit && listing.ahead !== END) {
      entries.push(toView(listing.ahead as Entry));
      listing.position++;
      listing.ahead = await nextOf(listing.iterator);
    }
    if (listing.ahead === END) return { entries };
    listing.usedAt = Date.now();
    const id = randomUUID();
    this.#open.set(id, listing);
    return { entries, next: id };
  }

  /** Closes all listings. */
  async close(): Promise<void> {
    const listings = [...this.#open.values()];
    this.#open.clear();
    for (const { iterator } of listings) await iterator.return?.();
  }

  /** The listing of a cursor. A cursor can be used once: the listing has moved on. */
  #resume(key: string, cursor: string): OpenListing {
    const listing = this.#open.get(cursor);
    if (!listing || listing.key !== key) {
      throw new SavepointError("CONFLICT", "This cursor has expired or was used before. Load the list from the start.");
    }
    this.#open.delete(cursor);
    return listing;
  }

  #expire(): void {
    const before = Date.now() - LIFETIME;
    for (const [id, { usedAt, iterator }] of this.#open) {
      if (usedAt >= before && this.#open.size < MAX_OPEN) return;
      this.#open.delete(id);
      void Promise.resolve(iterator.return?.()).catch(() => {});
    }
  }
}

const END = Symbol("end");

async function start(key: string, list: Listing<unknown>): Promise<OpenListing> {
  const iterator = list[Symbol.asyncIterator]();
  return { key, iterator, position: 0, ahead: await nextOf(iterator), usedAt: Date.now() };
}

async function nextOf(iterator: AsyncIterator<unknown>): Promise<unknown> {
  const { done, value } = await iterator.next();
  return done ? END : value;
}
