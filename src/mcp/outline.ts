/**
 * Large values in parts. An outline contains what fits, and lists for the rest where it is and how large it is. A caller
 * reads on with the pointer to such a part and the position in it.
 */
import { z } from "zod";
import { type Json, type SavepointError, toJson } from "../index.js";
import { invalidArgument } from "./errors.js";

/** The most characters of JSON that one value takes in a result. */
export const MAX_CHARACTERS = 100_000;
/** Binary data up to this size is included. Of larger data only the size is, because no model reads it. */
const MAX_BYTES = 1024;
/** The least number of characters for a part, however many parts there are. */
const MIN_SHARE = 2000;

const OMITTED_PART = z.object({
  /** JSON pointer to the part. */
  pointer: z.string(),
  kind: z.enum(["array", "object", "text"]),
  /** Number of elements, keys or characters of the complete part. */
  length: z.number(),
  /** Where the omitted rest begins. */
  from: z.number(),
});

export const OMITTED = z
  .array(OMITTED_PART)
  .optional()
  .describe("Large parts, `$more` in the value: load them with `pointer` and `from`.");

/** A part that was omitted. */
export type Omitted = Readonly<z.output<typeof OMITTED_PART>>;

export interface Outline {
  readonly value: Json;
  readonly omitted: Omitted[] | undefined;
}

export interface OutlineOptions {
  /** JSON pointer to the part of the value to show. */
  readonly pointer?: string | undefined;
  /** The first element, key or character of that part to show. */
  readonly from?: number | undefined;
  readonly maxCharacters?: number;
}

/** Shows a value, or a part of it, as far as it fits. */
export function outline(value: unknown, options: OutlineOptions = {}): Outline {
  const { pointer = "", from = 0, maxCharacters = MAX_CHARACTERS } = options;
  const part = partAt(toJson(value, { maxBytes: MAX_BYTES }), pointer);
  const omitted: Omitted[] = [];
  const fitted = new Fitting(omitted).fit(part, pointer, maxCharacters, from);
  return { value: fitted, omitted: omitted.length > 0 ? omitted : undefined };
}

/** Shortens a value that callers cannot read on in, such as metadata or the value of a change. */
export function abbreviate(value: unknown, maxCharacters = 4000): Json {
  return outline(value, { maxCharacters }).value;
}

class Fitting {
  readonly #omitted: Omitted[];
  readonly #sizes = new Map<Json, number>();

  constructor(omitted: Omitted[]) {
    this.#omitted = omitted;
  }

  fit(value: Json, pointer: string, budget: number, from = 0): Json {
    if (from === 0 && this.#size(value) <= budget) return value;
    if (typeof value === "string") return this.#fitText(value, pointer, budget, from);
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) {
      const { shown, next } = this.#fitEntries(Object.entries(value), pointer, budget, from);
      const entries = shown.map(([, entry]) => entry);
      return next < value.length ? [...entries, this.#more(pointer, "array", value.length, next)] : entries;
    }
    const entries = Object.entries(value);
    const { shown, next } = this.#fitEntries(entries, pointer, budget, from);
    const fields = Object.fromEntries(shown);
    return next < entries.length ? { ...fields, ...this.#more(pointer, "object", entries.length, next) } : fields;
  }

  #fitText(text: string, pointer: string, budget: number, from: number): Json {
    let end = from + budget;
    if (end >= text.length) return text.slice(from);
    // A lone surrogate is invalid in UTF-8.
    if (/[\uD800-\uDBFF]/.test(text[end - 1] as string)) end--;
    this.#more(pointer, "text", text.length, end);
    return `${text.slice(from, end)}… ($more: ${text.length - end} characters from ${end})`;
  }

  /** As many entries as fit. Each one gets its share of the remaining budget, and at least {@link MIN_SHARE}. */
  #fitEntries(entries: [string, Json][], pointer: string, budget: number, from: number): FittedEntries {
    const shown: [string, Json][] = [];
    let left = budget;
    let next = from;
    for (; next < entries.length && (left > 0 || shown.length === 0); next++) {
      const [key, entry] = entries[next] as [string, Json];
      const share = Math.max(MIN_SHARE, Math.floor(left / (entries.length - next)));
      const fits = this.#size(entry) <= Math.min(left, MIN_SHARE);
      const fitted = fits ? entry : this.fit(entry, `${pointer}/${escapeKey(key)}`, share);
      shown.push([key, fitted]);
      left -= key.length + 4 + (fitted === entry ? this.#size(entry) : JSON.stringify(fitted).length);
    }
    return { shown, next };
  }

  #more(pointer: string, kind: Omitted["kind"], length: number, from: number): { $more: Json } {
    this.#omitted.push({ pointer, kind, length, from });
    return { $more: { pointer, length, from } };
  }

  /** The approximate length of the JSON of a value. Cached, because it is needed at every level. */
  #size(value: Json): number {
    if (typeof value === "string") return value.length + 2;
    if (typeof value !== "object" || value === null) return String(value).length;
    const cached = this.#sizes.get(value);
    if (cached !== undefined) return cached;
    let size = 2;
    if (Array.isArray(value)) for (const entry of value) size += this.#size(entry) + 1;
    else for (const [key, entry] of Object.entries(value)) size += key.length + 4 + this.#size(entry);
    this.#sizes.set(value, size);
    return size;
  }
}

interface FittedEntries {
  readonly shown: [string, Json][];
  /** The index of the first entry that is not shown. */
  readonly next: number;
}

function partAt(root: Json, pointer: string): Json {
  if (pointer !== "" && !pointer.startsWith("/")) {
    throw invalidArgument('`pointer` must be a JSON pointer such as "/messages/3".');
  }
  let value = root;
  let walked = "";
  for (const token of pointer.split("/").slice(1)) {
    const key = token.replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) throw nothingAt(walked, value);
    value = (value as Record<string, Json>)[key] as Json;
    walked += `/${token}`;
  }
  return value;
}

function nothingAt(walked: string, value: Json): SavepointError {
  const keys = typeof value === "object" && value !== null && !Array.isArray(value) ? Object.keys(value) : [];
  const there = Array.isArray(value)
    ? `an array of ${value.length} elements`
    : keys.length > 0
      ? `an object with ${keys
          .slice(0, 20)
          .map((key) => JSON.stringify(key))
          .join(", ")}${keys.length > 20 ? " and more" : ""}`
      : "no object or array";
  return invalidArgument(
    `\`pointer\` does not exist: at ${JSON.stringify(walked)} there is ${there}. Omit \`pointer\` to see everything.`,
  );
}

function escapeKey(key: string): string {
  return key.replaceAll("~", "~0").replaceAll("/", "~1");
}
