/**
 * The names of tapes in an encrypted store. They begin with a letter that no name of a plain tape begins with, so that a plain
 * store can be encrypted by copying its tapes, and plain items are never read as encrypted ones.
 */
import type { KeyRange } from "../store/index.js";

const PREFIX = "e";

/** The name of a tape in the store. */
export const tapeBelow = (tape: string): string => PREFIX + tape;
/** The name of a tape as callers know it. */
export const tapeAbove = (tape: string): string => tape.slice(PREFIX.length);
export const tapesBelow = ({ from, to }: KeyRange): KeyRange => ({ from: PREFIX + from, to: PREFIX + to });
/** The tapes that are not encrypted. */
export const PLAIN_TAPES: readonly KeyRange[] = [
  { from: "", to: PREFIX },
  { from: "f", to: "\u{10ffff}" },
];
