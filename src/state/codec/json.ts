/**
 * States as readable JSON, for users, programs and models. A value that JSON cannot represent becomes an object whose first
 * key begins with `$`: `{"$date": "…"}`, `{"$bytes": 3, "base64": "AQID"}`, `{"$map": …}`, `{"$set": […]}`, `{"$bigint": "1"}`,
 * `{"$number": "NaN"}`, `{"$url": "…"}`, `{"$undefined": true}`.
 */

/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** Options of {@link toJson}. */
export interface ToJsonOptions {
  /**
   * The largest `Uint8Array` that is included. Of a larger one, only the length is.
   * @default Infinity
   */
  readonly maxBytes?: number;
  /**
   * Omits properties that are `undefined`.
   * @default false
   */
  readonly omitUndefined?: boolean;
}

/** Converts any value to JSON. Does not throw for values that cannot be stored: their type is shown instead. */
export function toJson(value: unknown, options: ToJsonOptions = {}): Json {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      // JSON would turn these into null or 0.
      return Number.isFinite(value) && !Object.is(value, -0)
        ? value
        : { $number: Object.is(value, -0) ? "-0" : String(value) };
    case "bigint":
      return { $bigint: value.toString() };
    case "undefined":
      return { $undefined: true };
    case "object":
      return value === null ? null : objectToJson(value, options);
    default:
      return { $unknown: typeof value };
  }
}

function objectToJson(value: object, options: ToJsonOptions): Json {
  const each = (part: unknown): Json => toJson(part, options);
  if (Array.isArray(value)) return value.map(each);
  if (value instanceof Date) return { $date: Number.isNaN(value.getTime()) ? null : value.toISOString() };
  if (value instanceof Uint8Array) return bytesToJson(value, options.maxBytes ?? Number.POSITIVE_INFINITY);
  if (value instanceof Map) return { $map: mapToJson(value, each) };
  if (value instanceof Set) return { $set: Array.from(value, each) };
  if (value instanceof URL) return { $url: value.href };
  const fields = Object.entries(value).filter(([, field]) => field !== undefined || !options.omitUndefined);
  const shown = Object.fromEntries(fields.map(([key, field]) => [key, each(field)]));
  const prototype = Object.getPrototypeOf(value) as { constructor?: { name?: string } } | null;
  if (prototype === null || prototype === Object.prototype) return shown;
  return { $class: prototype.constructor?.name ?? "", ...shown };
}

function bytesToJson(bytes: Uint8Array, max: number): Json {
  if (bytes.length > max) return { $bytes: bytes.length };
  const { buffer, byteOffset, byteLength } = bytes;
  return { $bytes: bytes.length, base64: Buffer.from(buffer, byteOffset, byteLength).toString("base64") };
}

/** An object if all keys are strings, so that JSON pointers work; else a list of pairs. */
function mapToJson(map: ReadonlyMap<unknown, unknown>, each: (part: unknown) => Json): Json {
  const entries = [...map];
  if (!entries.every(([key]) => typeof key === "string")) return entries.map((pair) => pair.map(each));
  return Object.fromEntries(entries.map(([key, entry]) => [key as string, each(entry)]));
}

/** The inverse of {@link toJson}, for states that a user has edited. Any object in one of the `$` forms is converted. */
export function fromJson(json: unknown): unknown {
  if (Array.isArray(json)) return json.map(fromJson);
  if (typeof json !== "object" || json === null) return json;
  const entries = Object.entries(json);
  const [name, first] = entries[0] ?? [];
  const read = name !== undefined && Object.hasOwn(READERS, name) ? READERS[name] : undefined;
  if (read && entries.length === (name === "$bytes" ? 2 : 1)) return read(first, (json as { base64?: unknown }).base64);
  return Object.fromEntries(entries.map(([key, value]) => [key, fromJson(value)]));
}

const READERS: Readonly<Record<string, (value: unknown, base64: unknown) => unknown>> = {
  $date: (value) => new Date(value === null ? Number.NaN : (value as string)),
  $bytes: (_, base64) => Uint8Array.from(Buffer.from(String(base64), "base64")),
  $map: (value) =>
    new Map(
      Array.isArray(value) ? (fromJson(value) as [unknown, unknown][]) : Object.entries(fromJson(value) as object),
    ),
  $set: (value) => new Set(fromJson(value) as unknown[]),
  $bigint: (value) => BigInt(String(value)),
  $number: (value) => Number(value),
  $url: (value) => new URL(String(value)),
  $undefined: () => undefined,
};
