/**
 * Values as JSON of at most 10,000 characters, for display and search.
 *
 * Accepts any value, including cycles and classes, and contains no binary data: bytes, data URLs and the content of files are
 * replaced by their size or media type.
 */
import { types } from "node:util";
import { type Fields, isFields, isWebAddress } from "./fields.js";

/** The maximum length of the JSON of one value, in characters. */
export const MAX_JSON = 10_000;
const MAX_JSON_DEPTH = 32;

/** The JSON of a value, truncated to {@link MAX_JSON} characters. */
export function briefJson(value: unknown): string {
  const writer = { text: "", ancestors: [] };
  writeJson(writer, value);
  return truncate(writer.text);
}

interface Writer {
  text: string;
  /** The objects that contain the value that is being written. */
  readonly ancestors: object[];
}

function writeJson(writer: Writer, value: unknown): void {
  if (typeof value === "string") writer.text += JSON.stringify(withoutData(value.slice(0, MAX_JSON)));
  else if (typeof value === "number") writer.text += Number.isFinite(value) ? value : "null";
  else if (typeof value === "bigint" || typeof value === "boolean") writer.text += value;
  else if (isFields(value)) writeObject(writer, value);
  else writer.text += "null";
}

function writeObject(writer: Writer, value: Fields): void {
  const replaced = replacement(value);
  if (replaced !== undefined) return writeJson(writer, replaced);
  if (writer.ancestors.includes(value)) return writeJson(writer, "[circular]");
  if (writer.ancestors.length >= MAX_JSON_DEPTH) return writeJson(writer, "…");
  writer.ancestors.push(value);
  if (Array.isArray(value) || types.isSet(value)) writeList(writer, value as Iterable<unknown>);
  else writeEntries(writer, types.isMap(value) ? value : Object.keys(value).map((key) => [key, fieldOf(value, key)]));
  writer.ancestors.pop();
}

function writeList(writer: Writer, list: Iterable<unknown>): void {
  let before = "[";
  for (const value of list) {
    if (writer.text.length > MAX_JSON) return;
    writer.text += before;
    writeJson(writer, value);
    before = ",";
  }
  writer.text += before === "[" ? "[]" : "]";
}

function writeEntries(writer: Writer, entries: Iterable<readonly unknown[]>): void {
  let before = "{";
  for (const [key, value] of entries) {
    if (writer.text.length > MAX_JSON) return;
    if (value === undefined || typeof value === "function" || typeof value === "symbol") continue;
    writer.text += `${before}${JSON.stringify(keyText(key))}:`;
    writeJson(writer, value);
    before = ",";
  }
  writer.text += before === "{" ? "{}" : "}";
}

/** The key of an entry of a Map, which may be any value. */
function keyText(key: unknown): string {
  if (typeof key === "string") return key;
  return typeof key === "number" || typeof key === "bigint" || typeof key === "boolean" ? `${key}` : `[${typeof key}]`;
}

/** The value to write instead of an object whose own fields do not describe it; `undefined` for any other object. */
function replacement(value: Fields): unknown {
  if (types.isDate(value)) return Number.isNaN(value.getTime()) ? null : value.toISOString();
  if (value instanceof URL) return value.href;
  if (value instanceof Error) return typeof value.message === "string" ? value.message : "[error]";
  if (ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)) return `[${value.byteLength} bytes]`;
  if (value instanceof Blob) return `[${value.size} bytes]`;
  // The JSON form of a Buffer.
  if (value["type"] === "Buffer" && Array.isArray(value["data"])) return `[${value["data"].length} bytes]`;
  return undefined;
}

/** A field of an object. The content of a file, a string beside a media type, is replaced by the media type. */
function fieldOf(owner: Fields, key: string): unknown {
  const value = owner[key];
  if ((key !== "data" && key !== "blob") || typeof value !== "string" || isWebAddress(value)) return value;
  const mediaType = owner["mimeType"] ?? owner["mediaType"] ?? owner["media_type"] ?? owner["mime_type"];
  return typeof mediaType === "string" && !mediaType.startsWith("text/") ? `[${mediaType}]` : value;
}

const DATA_URL = /^data:([\w.+-]+\/[\w.+-]+)[;,]/;

/** The string itself; for a data URL only its media type. */
export function withoutData(text: string): string {
  const mediaType = text.startsWith("data:") ? DATA_URL.exec(text)?.[1] : undefined;
  return mediaType === undefined ? text : `[${mediaType}]`;
}

/** Truncates a string to {@link MAX_JSON} characters without splitting a surrogate pair. */
export function truncate(json: string): string {
  return json.length <= MAX_JSON ? json : `${json.slice(0, MAX_JSON - 1).replace(/[\uD800-\uDBFF]$/, "")}…`;
}
