/**
 * Lists, a page at a time. A page goes on after the entry that the page before ended with, wherever that stands by now:
 * what is added meanwhile moves nothing. If that entry is gone, it goes on where it would stand; entries that cannot be
 * told from it in order may then come twice, but none is left out.
 */
import { z } from "zod";
import { decodeCursor, encodeCursor } from "./cursor.js";
import { MAX_CHARACTERS } from "./outline.js";

/** The arguments that every list takes. */
export const PAGE_ARGUMENTS = {
  limit: z.int().min(1).max(200).default(20).describe("At most this many entries; fewer where they are large."),
  cursor: z.string().optional().describe("`nextCursor` of the page before; the other arguments must be the same."),
};

/** What every list says beside its entries. */
export const NEXT_CURSOR = z
  .string()
  .optional()
  .describe("Pass it as `cursor` to get the next page. Missing on the last page.");

export interface PageArguments {
  readonly limit: number;
  readonly cursor?: string | undefined;
}

/** A list that is read in pages. */
export interface PagedList<T, Shown> {
  /** What it is and what limits it, so that cursors of other lists are refused. */
  readonly name: unknown;
  /** Walks it from its beginning. */
  walk(): AsyncIterable<T>;
  /** What is said about an entry. */
  show(entry: T): Shown;
  /** What no other entry has. */
  idOf(entry: T): string;
  /** Where it stands in the order of the list. */
  rankOf(entry: T): string | number;
  /** Does an entry with this rank stand at or behind one with that? */
  isBehind(rank: string | number, other: string | number): boolean;
}

export interface Page<Shown> {
  readonly entries: Shown[];
  readonly nextCursor: string | undefined;
}

export async function readPage<T, Shown>(
  list: PagedList<T, Shown>,
  { limit, cursor }: PageArguments,
): Promise<Page<Shown>> {
  const found = cursor === undefined ? await takeFrom(list, limit, () => "here") : await goOn(list, limit, cursor);
  const entries = fitEntries(found.slice(0, limit), (entry) => list.show(entry));
  const last = found[entries.length - 1];
  if (last === undefined || entries.length === found.length) return { entries, nextCursor: undefined };
  return { entries, nextCursor: encodeCursor(list.name, [list.idOf(last), list.rankOf(last)]) };
}

/** As many as one result has room for, and at least one. */
export function fitEntries<T, Shown>(found: readonly T[], show: (entry: T) => Shown): Shown[] {
  const entries: Shown[] = [];
  let left = MAX_CHARACTERS;
  for (const entry of found) {
    if (left <= 0) break;
    const shown = show(entry);
    entries.push(shown);
    left -= JSON.stringify(shown).length;
  }
  return entries;
}

/** Lists whose newest entries come first. */
export function isNewestFirst(rank: string | number, other: string | number): boolean {
  return rank <= other;
}

async function goOn<T>(list: PagedList<T, unknown>, limit: number, cursor: string): Promise<T[]> {
  const [last, lastRank] = decodePlace(list.name, cursor);
  const after = await takeFrom(list, limit, (entry) => (list.idOf(entry) === last ? "after" : "later"));
  if (after.length > 0) return after;
  // Either the end, or that entry is gone: then what is left of its neighbours tells where it stood.
  const whereItWas = await takeFrom(list, limit, (entry) => {
    if (list.idOf(entry) === last) return "after";
    return list.isBehind(list.rankOf(entry), lastRank) ? "here" : "later";
  });
  return (await has(list, last)) ? [] : whereItWas;
}

function decodePlace(name: unknown, cursor: string): readonly [string, string | number] {
  try {
    return decodeCursor(name, cursor, ["string", "number"]) as readonly [string, number];
  } catch {
    return decodeCursor(name, cursor, ["string", "string"]) as readonly [string, string];
  }
}

/** One entry more than a page has, to know whether there is another page. */
async function takeFrom<T>(
  list: PagedList<T, unknown>,
  limit: number,
  startOf: (entry: T) => "here" | "after" | "later",
): Promise<T[]> {
  const taken: T[] = [];
  let started = false;
  for await (const entry of list.walk()) {
    const start = started ? "here" : startOf(entry);
    if (start === "later") continue;
    started = true;
    if (start === "here") taken.push(entry);
    if (taken.length > limit) break;
  }
  return taken;
}

async function has<T>(list: PagedList<T, unknown>, id: string): Promise<boolean> {
  for await (const entry of list.walk()) if (list.idOf(entry) === id) return true;
  return false;
}
