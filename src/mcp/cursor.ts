/**
 * Cursors: where the next page of a list begins. To callers they are texts without a meaning; they say which list they
 * are of, so that one that is used for another list, or with other filters, is refused and not taken for a place.
 */
import { createHash } from "node:crypto";
import { SavepointError } from "../index.js";

/** What a cursor holds: texts and numbers. */
export type CursorPosition = readonly (string | number)[];

/** @param list the list and what limits it, such as `["conversation_list", { agent: "support" }]` */
export function encodeCursor(list: unknown, place: CursorPosition): string {
  return Buffer.from(JSON.stringify([nameOf(list), ...place])).toString("base64url");
}

/** @param kinds what each part of the place is */
export function decodeCursor(list: unknown, cursor: string, kinds: readonly ("string" | "number")[]): CursorPosition {
  const [name, ...place] = parse(cursor);
  const fits = place.length === kinds.length && place.every((part, index) => typeof part === kinds[index]);
  if (name !== nameOf(list) || !fits) throw invalidCursor();
  return place as CursorPosition;
}

function parse(cursor: string): unknown[] {
  try {
    const parsed: unknown = JSON.parse(Buffer.from(cursor, "base64url").toString());
    return Array.isArray(parsed) ? (parsed as unknown[]) : [];
  } catch {
    return [];
  }
}

function nameOf(list: unknown): string {
  return createHash("sha256").update(JSON.stringify(list)).digest("base64url").slice(0, 8);
}

function invalidCursor(): SavepointError {
  return new SavepointError(
    "INVALID_ARGUMENT",
    "`cursor` is not one that this tool gave for these arguments. Repeat the arguments of the call that gave it, or leave `cursor` out to begin with the first page.",
  );
}
