/** The changes between two JSON values, for the preview of an edit. Checkpoints are compared by the library, which reads less. */
import type { Change, Json } from "../../index.js";
import { escapePointer } from "./bounded-json.js";

/** Lists the changes that lead from one value to the other, to be applied in order. */
export function diffJson(before: Json, after: Json, path = ""): Change[] {
  if (Object.is(before, after)) return [];
  if (Array.isArray(before) && Array.isArray(after)) return diffArrays(before, after, path);
  if (isObject(before) && isObject(after)) return diffObjects(before, after, path);
  return [{ op: "replace", path, before, value: after }];
}

function isObject(value: Json): value is { [key: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function diffObjects(before: { [key: string]: Json }, after: { [key: string]: Json }, path: string): Change[] {
  const changes: Change[] = [];
  for (const [key, value] of Object.entries(before)) {
    const place = `${path}/${escapePointer(key)}`;
    if (Object.hasOwn(after, key)) changes.push(...diffJson(value, after[key] as Json, place));
    else changes.push({ op: "remove", path: place, before: value });
  }
  for (const [key, value] of Object.entries(after)) {
    if (!Object.hasOwn(before, key)) changes.push({ op: "add", path: `${path}/${escapePointer(key)}`, value });
  }
  return changes;
}

/** Equal ends are skipped. What is between them is compared element by element, and the rest is added or removed. */
function diffArrays(before: readonly Json[], after: readonly Json[], path: string): Change[] {
  const least = Math.min(before.length, after.length);
  let start = 0;
  while (start < least && isEqual(before[start] as Json, after[start] as Json)) start++;
  let end = 0;
  while (end < least - start && isEqual(before.at(-1 - end) as Json, after.at(-1 - end) as Json)) end++;
  const [old, fresh] = [before.slice(start, before.length - end), after.slice(start, after.length - end)];
  const paired = Math.min(old.length, fresh.length);
  const changes: Change[] = [];
  for (let index = 0; index < paired; index++) {
    changes.push(...diffJson(old[index] as Json, fresh[index] as Json, `${path}/${start + index}`));
  }
  const place = start + paired;
  for (const value of old.slice(paired)) changes.push({ op: "remove", path: `${path}/${place}`, before: value });
  for (const [index, value] of fresh.slice(paired).entries())
    changes.push({ op: "add", path: `${path}/${place + index}`, value });
  return changes;
}

function isEqual(a: Json, b: Json): boolean {
  return Object.is(a, b) || (typeof a === "object" && typeof b === "object" && JSON.stringify(a) === JSON.stringify(b));
}
