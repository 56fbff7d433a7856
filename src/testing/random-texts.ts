/** Random texts of characters that search engines stumble over, and texts to look for in them. */
import type { Random } from "./random.js";

const PIECES = [
  Array.from("aAbBéÉ ßſ\t\n0'\"`%_*^:()-+{}[]\\/.,;~|&"),
  ["AND", "OR", "NOT", "NEAR(", "ab", "abc", '""', "--", "/*"],
  // What ends texts, or is no text: NUL and other controls, halves of surrogate pairs, what is no character.
  ["\u0000", "\u0001", "\u0002", "\u007f", "\ud800", "\udfff", "\ud83d", "\ude00", "\ufffd", "\ufffe", "\uffff"],
  // More than one byte: CJK, emoji and how they are joined, the first and the last beyond the basic plane.
  ["漢", "字", "한", "\u0301", "\u200d", "\ufe0f", "😀", "👩", "\u{10000}", "\u{10ffff}", "İ", "ı"],
].flat();

export function randomText(random: Random, most: number): string {
  // Few different ones in most texts, so that the same trigrams come again.
  const pieces = random.chance(70) ? Array.from({ length: 6 }, () => random.pick(PIECES)) : PIECES;
  return random.some(most, () => random.pick(pieces)).join("");
}

/** Parts of these texts, of up to 12 characters, whole ones, and texts that may be nowhere. */
export function randomQueries(random: Random, texts: readonly string[]): string[] {
  const parts = Array.from({ length: 150 }, () => {
    const characters = Array.from(random.pick(texts));
    const start = random.below(characters.length + 1);
    return characters.slice(start, start + 1 + random.below(12)).join("");
  });
  const halves = Array.from({ length: 30 }, () => {
    // By code units: a part may begin or end within a pair.
    const text = random.pick(texts);
    const start = random.below(text.length + 1);
    return text.slice(start, start + 1 + random.below(5));
  });
  const others = Array.from({ length: 60 }, () => randomText(random, random.pick([1, 2, 4, 12])));
  return [...parts, ...halves, ...others, ...texts.slice(0, 5), ...PIECES];
}
