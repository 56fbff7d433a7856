/** JSON pointers into states. */
import { notFoundError } from "./errors.js";

/**
 * The part of a value that a JSON pointer names.
 * @throws if there is none; the error lists the keys that exist there
 */
export function resolvePointer(value: unknown, pointer: string): unknown {
  let part = value;
  for (const token of pointer.split("/").slice(1)) {
    const key = token.replaceAll("~1", "/").replaceAll("~0", "~");
    if (!hasKey(part, key)) {
      throw notFoundError(`The state has nothing at ${pointer}.${describeKeys(part)}`);
    }
    part = part instanceof Map ? part.get(key) : (part as Record<string, unknown>)[key];
  }
  return part;
}

function hasKey(value: unknown, key: string): boolean {
  if (value instanceof Map) return value.has(key);
  // `length` of an array is not an element.
  if (Array.isArray(value) && !/^\d+$/.test(key)) return false;
  return typeof value === "object" && value !== null && Object.hasOwn(value, key);
}

function describeKeys(value: unknown): string {
  if (Array.isArray(value)) return ` The array there has ${value.length} elements.`;
  const keys = value instanceof Map ? [...value.keys()].map(String) : Object.keys((value as object | null) ?? {});
  if (typeof value !== "object" || keys.length === 0) return "";
  const more = keys.length > 8 ? ` and ${keys.length - 8} more` : "";
  return ` The keys there: ${keys.slice(0, 8).join(", ")}${more}.`;
}
