/**
 * Copies a live value to an inline shadow: one in which everything is still inside its frame, except large bytes.
 *
 * Strings are shared with the value, everything mutable is copied. A value that cannot be stored is rejected with
 * `INVALID_STATE` and the path to it.
 */
import { SavepointError } from "../../errors.js";
import type { ClassRegistry, StoredClass } from "./class-registry.js";
import { kindOf } from "./kind.js";
import { MAX_BIGINT_LENGTH, MAX_DEPTH, MIN_BLOB_BYTES } from "./limits.js";
import type { Path } from "./pointer.js";
import { BlobNode, setKey, type Shadow, type ShadowObject, TAG } from "./shadow.js";
import {
  describeInstance,
  invalidState,
  tooDeep,
  validateArray,
  validateKeys,
  validateNoProperties,
} from "./storability.js";

/**
 * Copies a value to an inline shadow.
 *
 * @param path where the value is in its state, for errors
 * @param depth the number of keys in `path`
 */
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
      return copyBigInt(value, path);
    case "object":
      return value === null ? null : copyObject(value, registry, path, depth);
    default:
      throw invalidState(
        path,
        `a ${typeof value}`,
        "Leave it out of the state, or store the data that it was created from.",
      );
  }
}

function copyBigInt(value: bigint, path: Path | undefined): Shadow {
  const digits = value.toString();
  if (digits.length <= MAX_BIGINT_LENGTH) return tagged("bigint", digits);
  throw invalidState(
    path,
    `a bigint of ${digits.length} digits`,
    `Store at most ${MAX_BIGINT_LENGTH} digits, or a string.`,
  );
}

function copyObject(value: object, registry: ClassRegistry, path: Path | undefined, depth: number): Shadow {
  try {
    return copyByKind(value, registry, path, depth);
  } catch (cause) {
    if (cause instanceof SavepointError) throw cause;
    throw invalidState(path, `unreadable (${String(cause)})`, "A getter or a proxy in it has failed.", { cause });
  }
}

function copyByKind(value: object, registry: ClassRegistry, path: Path | undefined, depth: number): Shadow {
  if (depth >= MAX_DEPTH) throw tooDeep(value, path);
  const kind = kindOf(value, registry);
  const copyPart = (part: unknown, key: string | number): Shadow =>
    valueToShadow(part, registry, { parent: path, key }, depth + 1);
  switch (kind) {
    case "array":
      validateArray(value as unknown[], path);
      return (value as unknown[]).map(copyPart);
    case "object":
      validateKeys(value, path);
      if (Object.hasOwn(value, TAG)) return tagged("object", copyEntries(value, copyPart));
      return copyRecord(value as Record<string, unknown>, copyPart);
    case "dict":
      validateKeys(value, path);
      return tagged("dict", copyEntries(value, copyPart));
    case "date":
      validateNoProperties(value, path);
      return tagged("date", timeOf(value as Date));
    case "url":
      validateNoProperties(value, path);
      return tagged("url", (value as URL).href);
    case "bytes":
    case "buffer":
      return copyBytes(value as Uint8Array, kind === "buffer", registry);
    case "map":
      validateNoProperties(value, path);
      return tagged("map", copyPairs(value as Map<unknown, unknown>, copyPart));
    case "set":
      validateNoProperties(value, path);
      return tagged("set", [...(value as Set<unknown>)].map(copyPart));
    case undefined:
      throw invalidState(
        path,
        describeInstance(value),
        "Store plain data, or register the class in `classes` when you open the store.",
      );
    default:
      return tagged("class", kind.name, copyPart(encodeInstance(kind, value, path), kind.name));
  }
}

type CopyPart = (part: unknown, key: string | number) => Shadow;

function copyRecord(value: Record<string, unknown>, copyPart: CopyPart): ShadowObject {
  const copy: ShadowObject = {};
  for (const key of Object.keys(value)) setKey(copy, key, copyPart(value[key], key));
  return copy;
}

function copyEntries(value: object, copyPart: CopyPart): Shadow[] {
  return Object.keys(value).map((key) => [key, copyPart((value as Record<string, unknown>)[key], key)]);
}

function copyPairs(map: ReadonlyMap<unknown, unknown>, copyPart: CopyPart): Shadow[] {
  return [...map].map(([key, part], index) => [copyPart(key, index), copyPart(part, pathKeyOf(key, index))]);
}

function copyBytes(value: Uint8Array, isBuffer: boolean, registry: ClassRegistry): Shadow {
  if (value.length < MIN_BLOB_BYTES) return tagged(isBuffer ? "buffer" : "bytes", toBase64(value));
  const content = Uint8Array.prototype.slice.call(value);
  return new BlobNode(registry.nameBlob(content), content, isBuffer, false);
}

function tagged(name: string, ...content: Shadow[]): ShadowObject {
  return { [TAG]: [name, ...content] };
}

/** The name of a number that JSON cannot represent. */
export function nameOfNumber(value: number): string {
  return Object.is(value, -0) ? "-0" : String(value);
}

/** A Date as an ISO string; `null` for an invalid one. */
export function timeOf(date: Date): string | null {
  const time = date.getTime();
  return Number.isNaN(time) ? null : new Date(time).toISOString();
}

export function toBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("base64");
}

/** Calls `encode` of a registered class. */
export function encodeInstance(registered: StoredClass, value: object, path: Path | undefined): unknown {
  try {
    return registered.encode(value);
  } catch (cause) {
    throw invalidState(path, `an instance of ${registered.name}, whose \`encode\` failed`, "See the cause.", { cause });
  }
}

/** The key of a Map's entry in a path: the Map's own key if that can be shown, else the position of the entry. */
export function pathKeyOf(key: unknown, index: number): string | number {
  return typeof key === "string" || typeof key === "number" ? key : index;
}
