/** Encoding of values that are not part of a state: inputs, outputs, answers and the results of effects. */
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

/**
 * Encodes a value that is not a state. If it has an unsupported value in it, the error names it.
 *
 * @param what the subject of the error message, such as "The input"
 */
export function encodeNamed<T>(what: string, encode: () => T): T {
  try {
    return encode();
  } catch (error) {
    if (!isSavepointError(error, "INVALID_STATE")) throw error;
    const message = error.message.replace("The state cannot be stored", `${what} cannot be stored`);
    throw new SavepointError("INVALID_STATE", message, { cause: error, details: error.details });
  }
}

/** Copies a value into the form in which it is stored. A long string is split into parts that a state can refer to. */
export function settleValue(value: unknown, registry: ClassRegistry): Shadow {
  const copy = valueToShadow(value, registry);
  return typeof copy === "string" ? layoutChild(copy, ITEM_LIMITS) : layoutElement(copy);
}

/** Encodes a value as items of a tape. The last item is the value; the items before it are its parts. */
export function encodeItems(
  value: unknown,
  registry: ClassRegistry,
  tape: number,
  next: number,
): { items: readonly Frame[]; blobs: ReadonlyMap<string, Uint8Array>; at: number } {
  const { skeleton, items, blobs } = encodeShadow(settleValue(value, registry), tape, next);
  return { items: [...items, skeleton], blobs, at: next + items.length };
}

/** The SHA-256 hash of a string, by which inputs are compared without storing them. */
export function hashText(text: string): string {
  return createHash("sha256").update(text).digest("base64url");
}

/** The characters of the hash of a value: 132 bits, because every model call stores one. */
const HASH_LENGTH = 22;

/** The hash of a value, by which the inputs of models are compared. */
export function hashValue(value: unknown, registry: ClassRegistry): string {
  return hashText(JSON.stringify(valueToShadow(value, registry))).slice(0, HASH_LENGTH);
}
