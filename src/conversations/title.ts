/** Titles of conversations: one line, at most 50 characters as people count them. */

const MAX = 50;
const ENDING = "...";
/** Characters, as JavaScript counts them, that are looked at: a message may be a book. */
const LOOKED_AT = 10_000;

const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" });

/** A text as a title; `undefined` where nothing is left of it. A long one is cut between characters, never inside one. */
export function toTitle(text: string): string | undefined {
  const start = text.trimStart();
  const line = start.slice(0, LOOKED_AT).trimEnd().replace(/\s+/gu, " ");
  if (line === "") return undefined;
  const isCut = start.slice(LOOKED_AT).trim() !== "";
  const ends: number[] = [];
  for (const { index, segment } of segmenter.segment(line)) {
    ends.push(index + segment.length);
    if (ends.length > MAX) return cut(line, ends);
  }
  // What was not looked at may go on in the middle of the last character.
  return isCut ? cut(line, ends.slice(0, -1)) : line;
}

function cut(line: string, ends: readonly number[]): string {
  return line.slice(0, ends[Math.min(ends.length, MAX - ENDING.length) - 1] ?? 0) + ENDING;
}
