/**
 * From a live value to a new, inline shadow: checks that it can be stored and copies its structure.
 *
 * Strings are shared, everything mutable is copied. What cannot be stored is `INVALID_STATE` with the path to it.
 */
import { createHash } from "node:crypto";
import { SavepointError } from "../../errors.js";
import { kindOf, type ValueKind } from "./kind.js";
import { MAX_DEPTH, MIN_BLOB_BYTES } from "./limits.js";
import { type Path, pathToPointer } from "./pointer.js";
import type { ClassRegistry } from "./class-registry.js";
import { BlobNode, setKey, type Shadow, type ShadowObject, TAG } from "./shadow.js";

export function valueToShadow(value: unknown, registry: ClassRegistry, path?: Path, depth = 0): Shadow {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      return Number.isFinite(value) && !Object.is(value, -0) ? value : tagged("number", nameOfNumber(value));
    case "undefined":
      return tagged("undefined");
    case "bigint":
      return tagged("bigint", value.toString());
    case "object":
      return value === null ? null : cloneObject(value, registry, path, depth);
    default:
      throw invalid(path, `a ${typeof value}`, "Leave it out of the state, or keep what it was made from.");
  }
}

export function tagged(name: string, ...content: Shadow[]): ShadowObject {
  return { [TAG]: [name, ...content] };
}

/** The hash under which bytes are stored. */
export function hashBytes(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** The names of the numbers that JSON does not have. */
export function nameOfNumber(value: number): string {
  return Object.is(value, -0) ? "-0" : String(value);
}

/** Refuses what assignment to an index would not show: named properties of an array, and holes. */
export function checkArray(array: readonly unknown[], path: Path | undefined): void {
  const keys = Object.keys(array);
  const complete = keys.length === array.length && (keys.length === 0 || keys.at(-1) === String(array.length - 1));
  if (complete && hasNoSymbols(array)) return;
  for (let index = 0; index < array.length; index++) {
    if (!(index in array)) {
      throw invalid({ parent: path, key: index }, "a hole in a sparse array", "Fill it, with null for example.");
    }
  }
  throw invalid(
    path,
    "an array with named properties",
    "Copy it with [...array], or keep the properties in an object.",
  );
}

/** The error for what cannot be stored, with the path to it. */
export function invalid(
  path: Path | undefined,
  what: string,
  advice: string,
  options?: ErrorOptions,
): SavepointError<"INVALID_STATE"> {
  const pointer = pathToPointer(path);
  return new SavepointError(
    "INVALID_STATE",
    `The state cannot be stored: ${pointer === "" ? "it" : pointer} is ${what}. ${advice} Nothing was saved.`,
    { ...options, details: { path: pointer } },
  );
}

function cloneObject(value: object, registry: ClassRegistry, path: Path | undefined, depth: number): Shadow {
  try {
    return cloneParts(value, registry, path, depth);
  } catch (cause) {
    if (cause instanceof SavepointError) throw cause;
    throw invalid(path, `unreadable (${String(cause)})`, "A getter or a proxy in it has failed.", { cause });
  }
}

function cloneParts(value: object, registry: ClassRegistry, path: Path | undefined, depth: number): Shadow {
  if (depth >= MAX_DEPTH) throw tooDeep(value, path);
  const kind = kindOf(value, registry);
  const child = (part: unknown, key: string | number): Shadow =>
    valueToShadow(part, registry, { parent: path, key }, depth + 1);
  switch (kind) {
    case "array": {
      const array = value as unknown[];
      checkArray(array, path);
      return array.map(child);
    }
    case "object":
      return cloneRecord(value as Record<string, unknown>, path, child);
    case "dict":
      return tagged("dict", cloneEntries(value as Record<string, unknown>, path, child));
    case "date": {
      checkUnnamed(value, path);
      const time = (value as Date).getTime();
      return tagged("date", Number.isNaN(time) ? null : new Date(time).toISOString());
    }
    case "url":
      checkUnnamed(value, path);
      return tagged("url", (value as URL).href);
    case "bytes":
    case "buffer":
      return cloneBytes(value as Uint8Array, kind === "buffer");
    case "map":
      checkUnnamed(value, path);
      return tagged(
        "map",
        [...(value as Map<unknown, unknown>)].map(([key, part], index) => [
          child(key, index),
          child(part, keyName(key, index)),
        ]),
      );
    case "set":
      checkUnnamed(value, path);
      return tagged("set", [...(value as Set<unknown>)].map(child));
    case undefined:
      throw invalid(
        path,
        describe(value),
        "Store plain data, or register the class in `classes` when you open the store.",
      );
    default:
      return tagged("class", kind.name, child(encodeInstance(kind, value, path), kind.name));
  }
}

/** What a registered class gives for an instance. */
export function encodeInstance(kind: Exclude<ValueKind, string>, value: object, path: Path | undefined): unknown {
  try {
    return kind.encode(value);
  } catch (cause) {
    throw invalid(path, `an instance of ${kind.name}, whose \`encode\` failed`, "See the cause.", { cause });
  }
}

/** Refuses what only the content of a built-in object is kept of. Bytes are not asked: they would list every index. */
function checkUnnamed(value: object, path: Path | undefined): void {
  if (Object.keys(value).length === 0) return;
  throw invalid(path, `${describe(value)} with named properties`, "Keep the properties in an object beside it.");
}

function cloneRecord(
  value: Record<string, unknown>,
  path: Path | undefined,
  child: (part: unknown, key: string) => Shadow,
): Shadow {
  if (Object.hasOwn(value, TAG)) return tagged("object", cloneEntries(value, path, child));
  checkKeys(value, path);
  const copy: ShadowObject = {};
  for (const key of Object.keys(value)) setKey(copy, key, child(value[key], key));
  return copy;
}

function cloneEntries(
  value: Record<string, unknown>,
  path: Path | undefined,
  child: (part: unknown, key: string) => Shadow,
): Shadow {
  checkKeys(value, path);
  return Object.keys(value).map((key) => [key, child(value[key], key)]);
}

function cloneBytes(value: Uint8Array, buffer: boolean): Shadow {
  if (value.length < MIN_BLOB_BYTES) {
    return tagged(
      buffer ? "buffer" : "bytes",
      Buffer.from(value.buffer, value.byteOffset, value.length).toString("base64"),
    );
  }
  const content = Uint8Array.prototype.slice.call(value);
  return new BlobNode(hashBytes(content), content, buffer, false);
}

/** How a Map's key is written in a path. */
export function keyName(key: unknown, index: number): string | number {
  return typeof key === "string" || typeof key === "number" ? key : index;
}

function hasNoSymbols(value: object): boolean {
  return Object.getOwnPropertySymbols(value).length === 0;
}

/** Refuses symbols as keys. */
export function checkKeys(value: object, path: Path | undefined): void {
  if (!hasNoSymbols(value)) throw invalid(path, "an object with symbol keys", "Use strings as keys.");
}

function describe(value: object): string {
  const name = (Object.getPrototypeOf(value) as object).constructor?.name;
  return name ? `an instance of ${name}` : "an instance of an unnamed class";
}

/** Too deep is most often a cycle: say so when the path meets one of its own ancestors. */
function tooDeep(value: object, path: Path | undefined): SavepointError {
  const keys = pathToPointer(path);
  const where = keys.length > 120 ? `${keys.slice(0, 120)}…` : keys;
  return new SavepointError(
    "INVALID_STATE",
    `The state cannot be stored: it is nested more than ${MAX_DEPTH} deep at ${where}, ${
      isOwnDescendant(value) ? "because an object contains itself (a cycle)" : "too deep to be read back safely"
    }. Store ids instead of nested objects. Nothing was saved.`,
    { details: { path: keys } },
  );
}

function isOwnDescendant(target: object): boolean {
  const seen = new Set<object>();
  const queue: object[] = [target];
  for (let at = queue.pop(); at; at = queue.pop()) {
    const parts = at instanceof Map ? [...at].flat() : at instanceof Set ? [...at] : Object.values(at);
    for (const part of parts) {
      if (part === target) return true;
      if (typeof part === "object" && part !== null && !seen.has(part as object)) {
        seen.add(part as object);
        queue.push(part as object);
      }
    }
  }
  return false;
}
