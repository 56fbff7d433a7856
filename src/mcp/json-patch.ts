/** Changes to a state that a model sends: the operations of RFC 6902 (JSON Patch) that are needed to describe one. */
import { z } from "zod";
import { applyChanges, type Change } from "../index.js";
import { JSON_VALUE } from "./tools/arguments.js";

export const PATCH = z
  .array(
    z.discriminatedUnion("op", [
      z.strictObject({ op: z.literal("add"), path: z.string(), value: JSON_VALUE }),
      z.strictObject({ op: z.literal("replace"), path: z.string(), value: JSON_VALUE }),
      z.strictObject({ op: z.literal("remove"), path: z.string() }),
    ]),
  )
  .min(1);

/** A {@link Change} without the previous value, which the sender need not know. */
export type PatchOperation = z.output<typeof PATCH>[number];

/**
 * Applies the operations in order and returns the new state.
 * @throws `INVALID_ARGUMENT` if one of them does not match the state; the given state is never modified
 */
export function applyPatch(state: unknown, patch: readonly PatchOperation[]): unknown {
  return patch.reduce<unknown>((current, operation) => applyChanges(current, [toChange(current, operation)]), state);
}

/** Replaces `/-`, the position after the last element of an array, with an index. */
function toChange(state: unknown, operation: PatchOperation): Change {
  const parent = operation.path.slice(0, -2);
  const array = operation.op === "add" && operation.path.endsWith("/-") ? valueAt(state, parent) : undefined;
  const path = Array.isArray(array) ? `${parent}/${array.length}` : operation.path;
  // `before` is for readers of changes. It is not needed to apply them.
  return { ...operation, path, before: undefined } as Change;
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
