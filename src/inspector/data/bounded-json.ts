/** JSON of limited length: large parts are replaced by `Omitted`, which names them, so that the client can request them. */
import type { Json } from "../../index.js";
import type { Omitted } from "../api.js";
import { cut } from "./views.js";

/** JSON that may be incomplete. */
export interface BoundedJson {
  readonly value: Json;
  readonly isComplete: boolean;
}

/** The characters of a string that are shown in its place. */
const PREVIEW = 200;
/** About the length of an `Omitted` without a preview. */
const STUB = 120;

/** Shortens JSON to about `max` characters. Small parts stay, and large ones share the rest. */
export function boundJson(value: Json, max: number, pointer = ""): BoundedJson {
  const sizes = new Map<object, number>();
  const isComplete = sizeOf(value, sizes) <= max;
  return { value: isComplete ? value : shrink(value, max, pointer, sizes), isComplete };
}

/** The approximate length of a value as JSON. The sizes of its containers are remembered. */
function sizeOf(value: Json, sizes: Map<object, number>): number {
  if (typeof value === "string") return value.length + 2;
  if (typeof value !== "object" || value === null) return 6;
  let size = 2;
  if (Array.isArray(value)) for (const each of value) size += sizeOf(each, sizes) + 1;
  else for (const [key, each] of Object.entries(value)) size += key.length + 4 + sizeOf(each, sizes);
  sizes.set(value, size);
  return size;
}

function shrink(value: Json, max: number, pointer: string, sizes: Map<object, number>): Json {
  const lengthOf = (each: Json): number =>
    typeof each === "object" && each !== null ? (sizes.get(each) as number) : sizeOf(each, sizes);
  if (lengthOf(value) <= max) return value;
  if (typeof value === "string") return omit("string", value.length, pointer, cut(value, PREVIEW));
  if (typeof value !== "object" || value === null) return value;
  const entries: [string, Json][] = Array.isArray(value)
    ? value.map((each, index) => [String(index), each])
    : Object.entries(value);
  const type = Array.isArray(value) ? "array" : "object";
  const keys = type === "object" ? entries.reduce((sum, [key]) => sum + key.length + 4, 0) : entries.length;
  // The least that the entries take: small ones themselves, and a stub for each large one.
  const least = entries.reduce((sum, [, each]) => sum + Math.min(lengthOf(each), STUB + pointer.length), keys);
  if (least > max) return omit(type, entries.length, pointer);
  let rest = max - least;
  const shrunk = [...entries]
    .map(([key, each], index) => ({ key, each, index, length: lengthOf(each) }))
    .sort((a, b) => a.length - b.length)
    .map(({ key, each, index, length }, at) => {
      const own = Math.min(length, STUB + pointer.length);
      const share = own + Math.floor(rest / (entries.length - at));
      const part = shrink(each, share, `${pointer}/${escapePointer(key)}`, sizes);
      rest -= Math.max(0, Math.min(length, share) - own);
      return { key, part, index };
    })
    .sort((a, b) => a.index - b.index);
  return Array.isArray(value)
    ? shrunk.map(({ part }) => part)
    : Object.fromEntries(shrunk.map(({ key, part }) => [key, part]));
}

function omit(type: Omitted["$omitted"]["type"], length: number, pointer: string, preview?: string): Json {
  return { $omitted: { type, length, pointer, ...(preview !== undefined && { preview }) } };
}

export function escapePointer(key: string): string {
  return key.replaceAll("~", "~0").replaceAll("/", "~1");
}

/** The keys of a JSON pointer; `undefined` for an invalid one. */
export function parsePointer(pointer: string): string[] | undefined {
  if (pointer === "") return [];
  if (!pointer.startsWith("/")) return undefined;
  return pointer
    .slice(1)
    .split("/")
    .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** The part of a JSON value at a pointer; `undefined` if there is none. */
export function resolvePointer(value: Json, keys: readonly string[]): Json | undefined {
  let part: Json | undefined = value;
  for (const key of keys) {
    if (Array.isArray(part)) part = /^(0|[1-9]\d{0,15})$/.test(key) ? part[Number(key)] : undefined;
    else if (typeof part === "object" && part !== null) part = Object.hasOwn(part, key) ? part[key] : undefined;
    else return undefined;
  }
  return part;
}
