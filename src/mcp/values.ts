/**
 * States as JSON that a model can read. What JSON cannot hold stands as an object with one key that begins with `$`.
 * What a model saves is plain JSON and comes back as it is: such an object that was saved is not made a date again.
 */

/** Bytes up to this many are shown; of more, only how many there are. */
const MAX_BYTES = 1024;

/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export function toJson(value: unknown): Json {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      // JSON has no names for these, and would say null, or 0.
      return Number.isFinite(value) && !Object.is(value, -0)
        ? value
        : { $number: Object.is(value, -0) ? "-0" : String(value) };
    case "bigint":
      return { $bigint: value.toString() };
    case "undefined":
      return { $undefined: true };
    case "object":
      return value === null ? null : objectToJson(value);
    default:
      return { $unknown: typeof value };
  }
}

function objectToJson(value: object): Json {
  if (Array.isArray(value)) return value.map(toJson);
  if (value instanceof Date) return { $date: Number.isNaN(value.getTime()) ? null : value.toISOString() };
  if (value instanceof Uint8Array) return bytesToJson(value);
  if (value instanceof Map) return { $map: mapToJson(value) };
  if (value instanceof Set) return { $set: Array.from(value, toJson) };
  if (value instanceof URL) return { $url: value.href };
  const prototype = Object.getPrototypeOf(value) as { constructor?: { name?: string } } | null;
  const fields = Object.fromEntries(Object.entries(value).map(([key, field]) => [key, toJson(field)]));
  if (prototype === null || prototype === Object.prototype) return fields;
  return { $class: prototype.constructor?.name ?? "", ...fields };
}

function bytesToJson(bytes: Uint8Array): Json {
  if (bytes.length > MAX_BYTES) return { $bytes: bytes.length };
  return { $bytes: bytes.length, base64: Buffer.from(bytes).toString("base64") };
}

/** By their keys where those are texts, so that pointers lead through them; else as pairs. */
function mapToJson(map: ReadonlyMap<unknown, unknown>): Json {
  const entries = [...map];
  if (!entries.every(([key]) => typeof key === "string")) return entries.map((pair) => pair.map(toJson));
  return Object.fromEntries(entries.map(([key, entry]) => [key as string, toJson(entry)]));
}
