/** Case-insensitive matching of texts, with snippets of the match. */

/** How many characters a snippet has before and after the match. */
const BEFORE = 40;
const AFTER = 100;

/**
 * Folds the case of a text for the index. Each character is folded independently of its neighbours, so that the folded
 * form of a part of a text is a part of the folded form of the text. (`toLowerCase` treats a final sigma
 * differently.)
 */
export function foldText(text: string): string {
  return text.toLowerCase().replaceAll("ς", "σ");
}

/** A match of one text in another. */
export interface TextMatch {
  /** The text around the first occurrence. */
  readonly snippet: string;
  /** Whether any occurrence begins and ends at word boundaries. */
  readonly wholeWord: boolean;
}

/** Finds a folded text in an unfolded one; `undefined` if it does not occur. */
export function findMatch(text: string, folded: string): TextMatch | undefined {
  const haystack = foldText(text);
  const at = haystack.indexOf(folded);
  if (at < 0) return undefined;
  const [start, end] =
    haystack.length === text.length ? [at, at + folded.length] : unfoldedRange(text, at, at + folded.length);
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

/** The range in the text for a range in its folded form. They differ where folding makes characters longer. */
function unfoldedRange(text: string, foldedStart: number, foldedEnd: number): [number, number] {
  let [at, folded, start] = [0, 0, 0];
  for (const character of text) {
    if (folded <= foldedStart) start = at;
    if (folded >= foldedEnd) break;
    at += character.length;
    folded += foldText(character).length;
  }
  return [start, at];
}

/** The same index, or the index before it if the given index is inside a surrogate pair. */
function cutAt(text: string, at: number): number {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff ? at - 1 : at;
}
