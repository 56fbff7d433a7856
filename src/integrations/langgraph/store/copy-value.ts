/** Copies of values, so that the caller and the store never modify the same object. */
import { SavepointError } from "../../../index.js";

/** At least as deep as any value that can be stored. */
const MAX_DEPTH = 200;

/**
 * A deep copy of arrays, plain objects and the built-in objects that can be stored. Other values are returned unchanged.
 *
 * @throws `INVALID_STATE` for a value that is too deep. It may have a cycle, and the copies of two cycles would never end
 */
export function copyValue(value: unknown, depth = 0): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (depth > MAX_DEPTH) {
    throw new SavepointError(
      "INVALID_STATE",
      `The value of an item is nested more than ${MAX_DEPTH} deep, or contains itself. Store ids instead of nested objects. Nothing was saved.`,
    );
  }
  const copy = (part: unknown): unknown => copyValue(part, depth + 1);
  if (Array.isArray(value)) return value.map(copy);
  if (value instanceof Date) return new Date(value);
  if (value instanceof URL) return new URL(value);
  if (Buffer.isBuffer(value)) return Buffer.from(value);
  if (value instanceof Uint8Array) return new Uint8Array(value);
  if (value instanceof Map) {
    return new Map([...(value as Map<unknown, unknown>)].map(([key, each]) => [copy(key), copy(each)]));
  }
  if (value instanceof Set) return new Set([...(value as Set<unknown>)].map(copy));
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return value;
  // Defines own properties, even if one is named `__proto__`.
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, copy(each)]));
}
