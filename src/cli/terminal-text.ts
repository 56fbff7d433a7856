/** Texts for people: safe to print, short, and of a known width. */
import { stripVTControlCharacters } from "node:util";

// What a state or a title says is not ours: it must not move the cursor, colour the screen or ring the bell. Marks that
// reorder text are shown as well: they make one thing look like another.
// eslint-disable-next-line no-control-regex -- they are what is looked for
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** On one line, with what would disturb a terminal made visible. */
export function sanitize(text: string): string {
  return text.replace(UNPRINTABLE, (mark) => {
    if (mark === "\n") return "⏎";
    if (mark === "\t") return " ";
    return `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

/** The same for a text of several lines, which stay. */
export function sanitizeLines(text: string): string {
  return text.split("\n").map(sanitize).join("\n");
}

const SEGMENTS = new Intl.Segmenter("en", { granularity: "grapheme" });
// East Asian letters and most pictures take two columns of a terminal.
const WIDE =
  /^[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|^\p{Emoji_Presentation}/u;

/** How many columns of a terminal it takes. */
export function displayWidth(text: string): number {
  const plain = stripVTControlCharacters(text);
  if (/^[\u0020-\u007e]*$/.test(plain)) return plain.length;
  let width = 0;
  for (const { segment } of SEGMENTS.segment(plain)) width += WIDE.test(segment) ? 2 : 1;
  return width;
}

// eslint-disable-next-line no-control-regex -- colours begin with one
const COLOR = /(\u001b\[\d+m)/;
const NO_COLOR = "\u001b[0m";

/** At most so many columns, with an ellipsis where something was left out. Colours have no width. */
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
  return `${kept.trimEnd()}…${colored ? NO_COLOR : ""}`;
}

export function padEnd(text: string, columns: number): string {
  return text + " ".repeat(Math.max(0, columns - displayWidth(text)));
}

export function padStart(text: string, columns: number): string {
  return " ".repeat(Math.max(0, columns - displayWidth(text))) + text;
}

const UNITS = [
  ["y", 365 * 86_400_000],
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1000],
] as const;

/** How long ago, or how long until, in one unit. */
export function formatAge(time: number, now: number): string {
  const passed = Math.abs(now - time);
  const [unit, length] = UNITS.find(([, each]) => passed >= each) ?? ["s", 1000];
  const said = `${Math.floor(passed / length)}${unit}`;
  return time > now ? `in ${said}` : `${said} ago`;
}

/** A moment, as people and programs can read it. */
export function formatTime(time: number): string {
  return new Date(time)
    .toISOString()
    .replace("T", " ")
    .replace(/\.\d+Z$/, "Z");
}

export function formatBytes(count: number): string {
  if (count < 1000) return `${count} B`;
  const power = Math.min(4, Math.floor(Math.log10(count) / 3));
  const value = count / 1000 ** power;
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${["B", "kB", "MB", "GB", "TB"][power]}`;
}

export function formatCount(number: number, one: string, many = `${one}s`): string {
  return `${number.toLocaleString("en-US")} ${number === 1 ? one : many}`;
}

/** How an id is shown where it is one of many. */
export function shortId(id: string): string {
  return sanitize(id.slice(-8));
}
