/** Characters beyond ASCII that the command line itself prints, and their replacements for terminals without UTF-8. */
import { Writable } from "node:stream";
import type { CliIo, OutputStream } from "./io.js";

const REPLACEMENTS: Readonly<Record<string, string>> = {
  "…": "...",
  "⏎": "\\n",
  "━": "=",
  "─": "-",
  "│": "|",
  "┌": "+",
  "└": "+",
  "◆": "?",
  "◇": "?",
  "●": "*",
  "○": "o",
  "■": "x",
  "▲": "x",
};
const GLYPHS = new RegExp(`[${Object.keys(REPLACEMENTS).join("")}]`, "gu");

/** Whether a terminal shows UTF-8: unless the locale names another encoding. Without a locale, UTF-8 is assumed. */
export function usesUnicode(env: CliIo["env"]): boolean {
  // These are read in the order of POSIX. Empty ones count as unset.
  const locale = env["LC_ALL"] || env["LC_CTYPE"] || env["LANG"] || "UTF-8";
  return env["TERM"] !== "dumb" && /utf-?8/i.test(locale);
}

/** The text with ASCII in the place of each glyph of the command line. Other characters stay. */
export function toAscii(text: string): string {
  return text.replace(GLYPHS, (glyph) => REPLACEMENTS[glyph] ?? "?");
}

/** A stream on the same terminal that prints no glyphs. */
export function createAsciiStream(terminal: OutputStream): OutputStream {
  const stream = new Writable({
    decodeStrings: false,
    write(chunk: string | Buffer, _encoding, done) {
      terminal.write(toAscii(chunk.toString()));
      done();
    },
  });
  return Object.assign(stream, { isTTY: terminal.isTTY ?? false, columns: terminal.columns ?? 80 });
}
