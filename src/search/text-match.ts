/** Comparing texts without regard to case, and showing where one is in another. */

/** How many characters are shown before and after what was found. */
const BEFORE = 40;
const AFTER = 100;

/**
 * A text in the form in which it is searched. Character by character, whatever stands around it: otherwise a part of a
 * text would not be a part of its folded form. (`toLowerCase` minds its neighbours in one case, the final sigma.)
 */
export function fold(text: string): string {
  return text.toLowerCase().replaceAll("ς", "σ");
}

/** Where a text was found in another. */
export interface TextMatch {
  /** The part around the first place. */
  readonly snippet: string;
  /** Does it, anywhere, begin and end where words do? */
  readonly wholeWord: boolean;
}

/** Finds a folded text in one that is not; `undefined` where it is not in it. */
export function findMatch(text: string, folded: string): TextMatch | undefined {
  const haystack = fold(text);
  const at = haystack.indexOf(folded);
  if (at < 0) return undefined;
  const [start, end] =
    haystack.length === text.length ? [at, at + folded.length] : unfoldedPlace(text, at, at + folded.length);
  const from = cutAt(text, Math.max(0, start - BEFORE));
  const to = cutAt(text, Math.min(text.length, end + AFTER));
  const part = text.slice(from, to).replace(/\s+/gu, " ");
  return {
    snippet: `${from > 0 ? "…" : ""}${part}${to < text.length ? "…" : ""}`,
    wholeWord: isWholeWord(haystack, folded, at),
  };
}

function isWholeWord(haystack: string, folded: string, first: number): boolean {
  for (let at = first; at >= 0; at = haystack.indexOf(folded, at + 1)) {
    if (!isLetter(haystack[at - 1]) && !isLetter(haystack[at + folded.length])) return true;
  }
  return false;
}

function isLetter(character: string | undefined): boolean {
  return character !== undefined && /[\p{L}\p{N}]/u.test(character);
}

/** Where a part of the folded text is in the text itself; folding may make some characters longer. */
function unfoldedPlace(text: string, foldedStart: number, foldedEnd: number): [number, number] {
  let [at, folded, start] = [0, 0, 0];
  for (const character of text) {
    if (folded <= foldedStart) start = at;
    if (folded >= foldedEnd) break;
    at += character.length;
    folded += fold(character).length;
  }
  return [start, at];
}

/** The same place, or the one before it where that is inside a character. */
function cutAt(text: string, at: number): number {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff ? at - 1 : at;
}
