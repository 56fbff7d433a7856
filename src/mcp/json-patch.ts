/** Changes to a state that a model sends: the operations of RFC 6902 (JSON Patch) that are needed to describe one. */
import { z } from "zod";
import { applyChanges, type Change } from "../index.js";
import { JSON_VALUE } from "./tools/arguments.js";

/** How many changes one call may have. */
const MAX_CHANGES = 10_000;

export const PATCH = z
  .array(
    z.discriminatedUnion("op", [
      z.strictObject({ op: z.enum(["add", "replace"]), path: z.string(), value: JSON_VALUE }),
      z.strictObject({ op: z.literal("remove"), path: z.string() }),
    ]),
  )
  .min(1)
  .max(MAX_CHANGES, `At most ${MAX_CHANGES.toLocaleString("en-US")} changes per call. Send the rest with another call`);

/** A {@link Change} without the previous value, which the sender need not know. */
export type PatchOperation = z.output<typeof PATCH>[number];

/**
 * Applies the operations in order and returns the new state.
 * @throws `INVALID_ARGUMENT` if one of them does not match the state; the given state is never modified
 */
export function applyPatch(state: unknown, patch: readonly PatchOperation[]): unknown {
  // `before` is for readers of changes. It is not needed to apply them.
  return applyChanges(state, patch as readonly Change[]);
}
