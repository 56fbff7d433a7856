/** Text on a terminal: safe to print, and of a known width. */
import { stripVTControlCharacters } from "node:util";

// Stored data is not trusted: it must not move the cursor, change colours or ring the bell. Bidirectional control
// characters are included, because they can make text look like other text.
// eslint-disable-next-line no-control-regex -- control characters are what it matches
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** The text on one line, with control characters in visible form. */
export function sanitize(text: string): string {
  return text.replace(UNPRINTABLE, (character) => {
    if (character === "\n") return "⏎";
    if (character === "\t") return " ";
    return escapeCharacter(character);
  });
}

export function escapeCharacter(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

const SEGMENTS = new Intl.Segmenter("en", { granularity: "grapheme" });
// East Asian characters and most emoji take two columns.
const WIDE =
  /^[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|^\p{Emoji_Presentation}/u;

/** The number of columns that a text takes. Colours take none. */
export function displayWidth(text: string): number {
  const plain = stripVTControlCharacters(text);
  if (/^[\u0020-\u007e]*$/.test(plain)) return plain.length;
  let width = 0;
  for (const { segment } of SEGMENTS.segment(plain)) width += WIDE.test(segment) ? 2 : 1;
  return width;
}

// eslint-disable-next-line no-control-regex -- colours begin with a control character
const COLOR = /(\u001b\[\d+m)/;
const RESET_COLOR = "\u001b[0m";

/** The text cut to a number of columns, with an ellipsis if something is missing. */
export function truncate(text: string, columns: number): string {
  if (displayWidth(text) <= columns) return text;
  let kept = "";
  let width = 0;
  let colored = false;
  cut: for (const part of text.split(COLOR)) {
    if (COLOR.test(part)) {
      kept += part;
      colored = true;
      continue;
    }
    for (const { segment } of SEGMENTS.segment(part)) {
      width += WIDE.test(segment) ? 2 : 1;
      if (width >= columns) break cut;
      kept += segment;
    }
  }
  return `${kept.trimEnd()}…${colored ? RESET_COLOR : ""}`;
}

export function padEnd(text: string, columns: number): string {
  return text + " ".repeat(Math.max(0, columns - displayWidth(text)));
}

export function padStart(text: string, columns: number): string {
  return " ".repeat(Math.max(0, columns - displayWidth(text))) + text;
}
