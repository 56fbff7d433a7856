/** Outlines of large values: short enough for a terminal, with the sizes of what is left out. */
import type { Json } from "../index.js";
import { formatCount } from "./format.js";
import { formatJson } from "./json.js";

/** Values whose JSON has more characters than this are printed as outlines on a terminal. */
export const MAX_PRINTED = 100_000;

const MAX_STRING = 40;
const MAX_ELEMENTS = 4;
const MAX_KEYS = 24;
const MAX_DEPTH = 5;

/** The lines of a value: all of it, or an outline if it is larger than {@link MAX_PRINTED}. */
export function formatValue(json: Json, isComplete: boolean): { readonly lines: string[]; readonly omitted: number } {
  const size = isComplete ? 0 : JSON.stringify(json).length;
  return size > MAX_PRINTED ? { lines: outline(json), omitted: size } : { lines: formatJson(json), omitted: 0 };
}

/** The first lines of each part of a value, in the form of JSON. */
export function outline(json: Json): string[] {
  return outlinePart(json, "", "", 0);
}

/**
 * @param prefix what precedes the value on its first line
 * @param indent the indentation of its lines
 */
function outlinePart(json: Json, prefix: string, indent: string, depth: number): string[] {
  const start = `${indent}${prefix}`;
  if (typeof json === "string" && json.length > MAX_STRING) {
    const head = JSON.stringify(json.slice(0, MAX_STRING)).slice(0, -1);
    return [`${start}${head}…" (${formatCount(json.length, "character")})`];
  }
  if (typeof json !== "object" || json === null) return [`${start}${JSON.stringify(json)}`];
  const inner = `${indent}  `;
  if (Array.isArray(json)) {
    if (json.length === 0) return [`${start}[]`];
    if (depth >= MAX_DEPTH) return [`${start}[… ${formatCount(json.length, "element")}]`];
    const shown = json.slice(0, MAX_ELEMENTS).flatMap((each) => outlinePart(each, "", inner, depth + 1));
    return [`${start}[`, ...shown, ...more(inner, json.length - MAX_ELEMENTS, "element"), `${indent}]`];
  }
  const entries = Object.entries(json) as [string, Json][];
  if (entries.length === 0) return [`${start}{}`];
  if (depth >= MAX_DEPTH) return [`${start}{… ${formatCount(entries.length, "key")}}`];
  const shown = entries
    .slice(0, MAX_KEYS)
    .flatMap(([key, value]) => outlinePart(value, `${JSON.stringify(key)}: `, inner, depth + 1));
  return [`${start}{`, ...shown, ...more(inner, entries.length - MAX_KEYS, "key"), `${indent}}`];
}

function more(indent: string, count: number, noun: string): string[] {
  return count > 0 ? [`${indent}… ${formatCount(count, `more ${noun}`)}`] : [];
}
