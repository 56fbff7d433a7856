/**
 * Lists in pages. A page continues after the last entry of the previous page, wherever that entry is by then, so entries
 * that are added in the meantime move nothing. If that entry was deleted, the page continues at its former position;
 * entries with the same rank may then be repeated, but none is omitted. Each page reads the list from its beginning.
 */
import { createHash } from "node:crypto";
import { z } from "zod";
import type { SavepointError } from "../index.js";
import { invalidArgument } from "./errors.js";
import { MAX_CHARACTERS } from "./outline.js";

/** The arguments of every list. */
export const PAGE_ARGUMENTS = {
  limit: z.int().min(1).max(200).default(20),
  cursor: z.string().optional().describe("`nextCursor` of the previous page, with the same other arguments."),
};

/** The result of every list, beside its entries. */
export const NEXT_CURSOR = z.string().optional();

export type PageArguments = z.output<z.ZodObject<typeof PAGE_ARGUMENTS>>;

interface PagedList<T, Shown> {
  /** The list and its filters. A cursor of another list is rejected. */
  readonly name: unknown;
  /** Reads the list from its beginning. */
  walk(): AsyncIterable<T>;
  /** An entry as the page contains it. */
  show(entry: T): Shown;
  /** A unique id. */
  idOf(entry: T): string;
  /** The position in the order of the list. Several entries may have the same rank. */
  rankOf(entry: T): string | number;
  /** Whether an entry with rank `rank` comes at or after one with rank `other`. */
  isBehind(rank: string | number, other: string | number): boolean;
}

/** What a list has unless it says otherwise: the newest entries come first. */
const DEFAULTS: Omit<PagedList<Entry, unknown>, "name" | "walk" | "show"> = {
  idOf: ({ id }) => id,
  rankOf: ({ createdAt }) => createdAt,
  isBehind: (rank, other) => rank <= other,
};

interface Entry {
  readonly id: string;
  readonly createdAt: number;
}

export async function readPage<T extends Entry, Shown>(
  options: Omit<PagedList<T, Shown>, keyof typeof DEFAULTS> & Partial<PagedList<T, Shown>>,
  { limit, cursor }: PageArguments,
): Promise<{ readonly entries: Shown[]; readonly nextCursor: string | undefined }> {
  const list: PagedList<T, Shown> = { ...DEFAULTS, ...options };
  const found = cursor === undefined ? await readFrom(list, limit, () => "here") : await readAfter(list, limit, cursor);
  const entries = fitEntries(found.slice(0, limit), (entry) => list.show(entry));
  const last = found[entries.length - 1];
  if (last === undefined || entries.length === found.length) return { entries, nextCursor: undefined };
  return { entries, nextCursor: encodeCursor(list.name, [list.idOf(last), list.rankOf(last)]) };
}

/** As many entries as one result has room for, and at least one. */
export function fitEntries<T, Shown>(entries: readonly T[], show: (entry: T) => Shown): Shown[] {
  const fitting: Shown[] = [];
  let left = MAX_CHARACTERS;
  for (const entry of entries) {
    if (left <= 0) break;
    const shown = show(entry);
    fitting.push(shown);
    left -= JSON.stringify(shown).length;
  }
  return fitting;
}

async function readAfter<T>(list: PagedList<T, unknown>, limit: number, cursor: string): Promise<T[]> {
  const [last, lastRank] = decodeEntryCursor(list.name, cursor);
  const after = await readFrom(list, limit, (entry) => (list.idOf(entry) === last ? "after" : "later"));
  if (after.length > 0) return after;
  // Either the list ends there, or the entry was deleted: then the ranks of the others tell its former position.
  const atFormerPosition = await readFrom(list, limit, (entry) => {
    if (list.idOf(entry) === last) return "after";
    return list.isBehind(list.rankOf(entry), lastRank) ? "here" : "later";
  });
  return (await contains(list, last)) ? [] : atFormerPosition;
}

/**
 * Reads one entry more than a page has, to know whether there is another page.
 * @param startOf whether the page starts at this entry, after it, or later
 */
async function readFrom<T>(
  list: PagedList<T, unknown>,
  limit: number,
  startOf: (entry: T) => "here" | "after" | "later",
): Promise<T[]> {
  const entries: T[] = [];
  let started = false;
  for await (const entry of list.walk()) {
    const start = started ? "here" : startOf(entry);
    if (start === "later") continue;
    started = true;
    if (start === "here") entries.push(entry);
    if (entries.length > limit) break;
  }
  return entries;
}

async function contains<T>(list: PagedList<T, unknown>, id: string): Promise<boolean> {
  for await (const entry of list.walk()) if (list.idOf(entry) === id) return true;
  return false;
}

/** The position at which a page starts. */
export type CursorPosition = readonly (string | number)[];

/**
 * Encodes where the next page starts. A cursor is opaque to callers and contains a hash of its list, so that one of
 * another list, or of other filters, is rejected.
 * @param list the list and its filters, such as `["conversation_list", { agent: "support" }]`
 */
export function encodeCursor(list: unknown, position: CursorPosition): string {
  return Buffer.from(JSON.stringify([hashOf(list), ...position])).toString("base64url");
}

/**
 * @param types the type of each part of the position
 * @throws `INVALID_ARGUMENT` for a cursor of another list
 */
export function decodeCursor(list: unknown, cursor: string, types: readonly ("string" | "number")[]): CursorPosition {
  const [hash, ...position] = parseCursor(cursor);
  const fits = position.length === types.length && position.every((part, index) => typeof part === types[index]);
  if (hash !== hashOf(list) || !fits) throw invalidCursor();
  return position as CursorPosition;
}

/** Ranks are strings in some lists and numbers in others. */
function decodeEntryCursor(name: unknown, cursor: string): readonly [string, string | number] {
  try {
    return decodeCursor(name, cursor, ["string", "number"]) as readonly [string, number];
  } catch {
    return decodeCursor(name, cursor, ["string", "string"]) as readonly [string, string];
  }
}

function parseCursor(cursor: string): unknown[] {
  try {
    const parsed: unknown = JSON.parse(Buffer.from(cursor, "base64url").toString());
    return Array.isArray(parsed) ? (parsed as unknown[]) : [];
  } catch {
    return [];
  }
}

function hashOf(list: unknown): string {
  return createHash("sha256").update(JSON.stringify(list)).digest("base64url").slice(0, 8);
}

function invalidCursor(): SavepointError {
  return invalidArgument(
    "`cursor` was not returned by this tool for these arguments. Repeat the arguments of the call that returned it, or omit `cursor` to start with the first page.",
  );
}
