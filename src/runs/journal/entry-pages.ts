/**
 * Reads entries of past steps page by page. Unlike the journal of the current step, damaged entries are not an error: they are
 * reported as holes, because nothing is resumed from what is read here.
 *
 * An entry is found from its end: its frame states how many items before it belong to it, and those can contain anything. So
 * the entries of a long range are first located from its end to its start, and then read in order.
 */
import { isSavepointError } from "../../errors.js";
import { parseRecord } from "../../records/index.js";
import type { SessionReader } from "../../sessions/index.js";
import {
  decodeParts,
  type Frame,
  type Hole,
  parseFrame,
  type Piece,
  type ShadowObject,
  type StateReader,
  type Unreadable,
} from "../../state/index.js";
import { isEntry, type JournalOperation, shadowToEntry } from "./entry.js";
import { withItems } from "./known-items.js";

/** Items that are read with one request. */
const PAGE_ITEMS = 256;

/** An entry with the damaged parts of its arguments and its result; or the reason why entries cannot be read. */
export type EntryResult =
  | { readonly entry: JournalOperation; readonly holes: readonly Hole[] }
  | { readonly unreadable: string };

/** How entries are read. */
export interface ReadEntriesOptions {
  /** Whether arguments and results are read, or only arguments. Without results, an effect that has returned has the value `null`. */
  readonly values: "all" | "arguments" | "none";
}

/** Reads the entries on these items, oldest first. */
export async function* readEntryPages(
  reader: SessionReader,
  number: number,
  piece: Piece,
  options: ReadEntriesOptions,
): AsyncGenerator<EntryResult[]> {
  const state = reader.stateReader(number);
  const { pages, unreadable } = await locatePages(state, piece);
  if (unreadable !== undefined) yield [{ unreadable }];
  for (const { start, count } of pages.reverse()) {
    const page = { tape: piece.tape, start, count };
    yield decodePage(page, await state.items([page]), state, options);
  }
}

/**
 * Splits a range into pages that contain complete entries, the last one first. Entries before an unreadable one cannot be
 * located.
 */
async function locatePages(
  state: StateReader,
  { tape, start, count }: Piece,
): Promise<{ pages: Omit<Piece, "tape">[]; unreadable?: string }> {
  if (count <= PAGE_ITEMS) return { pages: [{ start, count }] };
  const pages: Omit<Piece, "tape">[] = [];
  let window: readonly (Frame | Unreadable)[] = [];
  let from = Number.POSITIVE_INFINITY;
  let pageEnd = start + count;
  for (let end = pageEnd; end > start;) {
    const at = end - 1;
    if (at < from) {
      from = Math.max(start, end - PAGE_ITEMS);
      window = await state.items([{ tape, start: from, count: end - from }]);
    }
    const items = itemsOfEntry(window[at - from]);
    if (typeof items === "string") {
      if (pageEnd > end) pages.push({ start: end, count: pageEnd - end });
      return { pages, unreadable: items };
    }
    const next = Math.max(start, end - items);
    if (pageEnd - next > PAGE_ITEMS && pageEnd > end) {
      pages.push({ start: end, count: pageEnd - end });
      pageEnd = end;
    }
    end = next;
  }
  if (pageEnd > start) pages.push({ start, count: pageEnd - start });
  return { pages };
}

/** The number of items of an entry with its parts; or why the entry cannot be read. */
function itemsOfEntry(frame: Frame | Unreadable | undefined): number | string {
  if (!frame || !("json" in frame)) return frame?.unreadable ?? "it is missing";
  try {
    return 1 + (parseRecord<{ m?: number }>(frame.json, isEntry, "journal entry").m ?? 0);
  } catch (error) {
    if (isSavepointError(error, "DAMAGED")) return error.message;
    throw error;
  }
}

/** Decodes the entries in a range whose items are read. */
export async function decodePage(
  { tape, start, count }: Piece,
  items: readonly (Frame | Unreadable)[],
  state: StateReader,
  { values }: ReadEntriesOptions,
): Promise<EntryResult[]> {
  const frames: Frame[] = [];
  const lost: string[] = [];
  for (let at = count - 1; at >= 0;) {
    const size = itemsOfEntry(items[at]);
    if (typeof size === "string") {
      lost.push(size);
      break;
    }
    frames.push(items[at] as Frame);
    at -= size;
  }
  const holes: Hole[] = [];
  const results: EntryResult[] = lost.map((unreadable) => ({ unreadable }));
  try {
    const parts = frames.reverse().map((frame, index) => {
      const tree = parseFrame(frame, tape) as Record<string, never>;
      return { tree: values === "all" ? tree : withoutValues(tree, values === "arguments"), path: `/${index}` };
    });
    const shadows = await decodeParts(parts, withItems(state, { tape, start, count }, items), holes);
    const byEntry = new Map<number, Hole[]>();
    for (const { path, reason } of holes) {
      const [, index = "", field = "", ...rest] = path.split("/");
      const name = field === "a" ? "arguments" : "value";
      const own = byEntry.get(Number(index)) ?? [];
      byEntry.set(Number(index), [...own, { path: ["", name, ...rest].join("/"), reason }]);
    }
    for (const [index, shadow] of shadows.entries()) {
      results.push({ entry: shadowToEntry(shadow as ShadowObject), holes: byEntry.get(index) ?? [] });
    }
  } catch (error) {
    if (!isSavepointError(error, "DAMAGED")) throw error;
    return [{ unreadable: error.message }];
  }
  return results;
}

/** A parsed entry with `null` for its result, and possibly without its arguments, so that nothing is read for them. */
function withoutValues(tree: Record<string, never>, keepArguments: boolean): Record<string, never> {
  const kept = Object.entries(tree).filter(([key]) => keepArguments || key !== "a");
  return Object.fromEntries(kept.map(([key, value]) => [key, key === "v" ? null : value])) as Record<string, never>;
}
