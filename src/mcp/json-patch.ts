/** Changes that a model gives, applied to a state: those of RFC 6902 that a caller needs to say what is new. */
import { applyChanges, type Change } from "../index.js";

/** A change without what was there before, which whoever writes one need not know. */
export type PatchOperation =
  | { readonly op: "add" | "replace"; readonly path: string; readonly value: unknown }
  | { readonly op: "remove"; readonly path: string };

/** The state after the changes, in order. One that does not fit is `INVALID_ARGUMENT`, and none is applied. */
export function applyPatch(state: unknown, changes: readonly PatchOperation[]): unknown {
  return changes.reduce<unknown>((current, change) => applyChanges(current, [toChange(current, change)]), state);
}

/** `/-` is the place behind the last element of a list, as it is at that moment. */
function toChange(state: unknown, change: PatchOperation): Change {
  const parent = change.path.slice(0, -2);
  const list = change.op === "add" && change.path.endsWith("/-") ? valueAt(state, parent) : undefined;
  const path = Array.isArray(list) ? `${parent}/${list.length}` : change.path;
  // What was there before is for readers of changes; applying them does not look at it.
  return { ...change, path, before: undefined } as Change;
}

function valueAt(state: unknown, pointer: string): unknown {
  let value = state;
  for (const token of pointer.split("/").slice(1)) {
    const key = token.replaceAll("~1", "/").replaceAll("~0", "~");
    if (value instanceof Map) value = value.get(key);
    else if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    else value = (value as Record<string, unknown>)[key];
  }
  return value;
}
