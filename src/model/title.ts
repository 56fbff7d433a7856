/** Titles of conversations: one line, at most 50 characters as people count them. */

const MAX = 50;
const ENDING = "...";
/** Characters, as JavaScript counts them, that are looked at: enough for any 50 that people would call characters. */
const LOOKED_AT = 4000;

const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" });

/** A text as a title; `undefined` where nothing is left of it. A long one is cut between characters, never inside one. */
export function toTitle(text: string): string | undefined {
  const line = text.slice(0, LOOKED_AT).trim().replace(/\s+/gu, " ");
  if (line === "") return undefined;
  const ends: number[] = [];
  for (const { index, segment } of segmenter.segment(line)) {
    ends.push(index + segment.length);
    if (ends.length > MAX) return line.slice(0, ends[MAX - ENDING.length - 1]) + ENDING;
  }
  return line;
}
