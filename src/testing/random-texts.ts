/** Random strings of characters that search engines often handle wrongly, and queries for them. */
import type { Random } from "./random.js";

const PIECES = [
  Array.from("aAbBéÉ ßſ\t\n0'\"`%_*^:()-+{}[]\\/.,;~|&"),
  ["AND", "OR", "NOT", "NEAR(", "ab", "abc", '""', "--", "/*"],
  // Terminators and invalid text: NUL and other control characters, lone surrogates, noncharacters.
  ["\u0000", "\u0001", "\u0002", "\u007f", "\ud800", "\udfff", "\ud83d", "\ude00", "\ufffd", "\ufffe", "\uffff"],
  // Multi-byte characters: CJK, emoji and joiners, the first and the last code point beyond the basic plane.
  ["漢", "字", "한", "\u0301", "\u200d", "\ufe0f", "😀", "👩", "\u{10000}", "\u{10ffff}", "İ", "ı"],
].flat();

export function randomText(random: Random, most: number): string {
  // Most strings have few different characters, so that trigrams repeat.
  const pieces = random.chance(70) ? Array.from({ length: 6 }, () => random.pick(PIECES)) : PIECES;
  return random.some(most, () => random.pick(pieces)).join("");
}

/** Queries: substrings of up to 12 characters, complete strings, and strings that may not occur. */
export function randomQueries(random: Random, texts: readonly string[]): string[] {
  const parts = Array.from({ length: 150 }, () => {
    const characters = Array.from(random.pick(texts));
    const start = random.below(characters.length + 1);
    return characters.slice(start, start + 1 + random.below(12)).join("");
  });
  const halves = Array.from({ length: 30 }, () => {
    // By code units: a substring may begin or end inside a surrogate pair.
    const text = random.pick(texts);
    const start = random.below(text.length + 1);
    return text.slice(start, start + 1 + random.below(5));
  });
  const others = Array.from({ length: 60 }, () => randomText(random, random.pick([1, 2, 4, 12])));
  return [...parts, ...halves, ...others, ...texts.slice(0, 5), ...PIECES];
}
