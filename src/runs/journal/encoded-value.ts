/** Values outside a state: inputs, outputs, results. */
import { createHash } from "node:crypto";
import { isSavepointError, SavepointError } from "../../errors.js";
import {
  type ClassRegistry,
  valueToShadow,
  encodeShadow,
  type Frame,
  ITEM_LIMITS,
  layoutChild,
  layoutElement,
  type Shadow,
} from "../../state/index.js";

/** Encodes something that is no state: if it cannot be stored, the error says what it is. */
export function encodeNamed<T>(what: string, encode: () => T): T {
  try {
    return encode();
  } catch (error) {
    if (!isSavepointError(error, "INVALID_STATE")) throw error;
    const message = error.message.replace("The state cannot be stored", `${what} cannot be stored`);
    throw new SavepointError("INVALID_STATE", message, { cause: error, details: error.details });
  }
}

/** A value in the form in which it is stored; a long text in parts, so that a state can refer to them. */
export function settleValue(value: unknown, registry: ClassRegistry): Shadow {
  const copy = valueToShadow(value, registry);
  return typeof copy === "string" ? layoutChild(copy, ITEM_LIMITS) : layoutElement(copy);
}

/** A value as items of a tape: the last of them is the value, those before it are parts of it. */
export function encodeItems(
  value: unknown,
  registry: ClassRegistry,
  tape: number,
  next: number,
): { items: readonly Frame[]; blobs: ReadonlyMap<string, Uint8Array>; at: number } {
  const { skeleton, items, blobs } = encodeShadow(settleValue(value, registry), tape, next);
  return { items: [...items, skeleton], blobs, at: next + items.length };
}

/** Tells inputs apart. */
export function hashText(text: string): string {
  return createHash("sha256").update(text).digest("base64url");
}
