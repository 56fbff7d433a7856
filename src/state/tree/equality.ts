/**
 * Does a live value still equal its shadow? Key order counts, numbers are compared with `Object.is`, and nothing is
 * trusted but the values themselves.
 *
 * Named properties and symbols added to an array, and symbols added to an object, after it was first saved are not
 * noticed here: looking for them would cost as much as the whole comparison.
 */
import { encodeInstance, nameOfNumber } from "./value-to-shadow.js";
import { kindOf } from "./kind.js";
import type { ClassRegistry } from "./class-registry.js";
import { BlobNode, ListNode, type Shadow, type ShadowObject, TAG, tagOf, TextNode, ValueNode } from "./shadow.js";

/**
 * @param frozen what Savepoint deep-froze when it made the shadow, if it did: then being the same object is enough
 */
export function equalsShadow(shadow: Shadow, value: unknown, registry: ClassRegistry, frozen?: unknown): boolean {
  switch (typeof value) {
    case "string":
      return shadow === value || (shadow instanceof TextNode && shadow.dense === undefined && shadow.text === value);
    case "boolean":
      return shadow === value;
    case "number":
      if (Number.isFinite(value) && !Object.is(value, -0)) return shadow === value;
      return isTag(shadow, "number", nameOfNumber(value));
    case "undefined":
      return isTag(shadow, "undefined", undefined);
    case "bigint":
      return isTag(unwrap(shadow), "bigint", value.toString());
    case "object":
      if (value === null || shadow === null || typeof shadow !== "object") return value === shadow;
      if (frozen !== undefined && frozen === value) return true;
      // Most of every state is plain objects, so they are looked at first and with as little as possible.
      if (Object.getPrototypeOf(value) === Object.prototype && Object.getPrototypeOf(shadow) === Object.prototype) {
        return isSameRecord(shadow as ShadowObject, value as Record<string, unknown>, registry, frozen);
      }
      return isSameObject(unwrap(shadow), value, registry, frozen);
    default:
      return false;
  }
}

/** The value inside a node that only says how it is stored. */
export function unwrap(shadow: Shadow): Shadow {
  if (shadow instanceof ValueNode) return shadow.value;
  return shadow instanceof TextNode && shadow.dense !== undefined ? shadow.dense : shadow;
}

function isSameObject(shadow: Shadow, value: object, registry: ClassRegistry, frozen: unknown): boolean {
  const kind = kindOf(value, registry);
  switch (kind) {
    case "array":
      return isSameArray(elementsOf(shadow, "array"), value as unknown[], registry, frozen);
    case "object":
      if (shadow instanceof ListNode) return shadow.kind === "object" && isSameEntries(shadow, value, registry, frozen);
      return isPlainObject(shadow) && isSameRecord(shadow, value as Record<string, unknown>, registry, frozen);
    case "dict":
      if (shadow instanceof ListNode) return shadow.kind === "dict" && isSameEntries(shadow, value, registry, frozen);
      return isSameTagged(shadow, "dict", value, registry);
    case "map":
      return isSameArray(elementsOf(shadow, "map"), [...(value as Map<unknown, unknown>)], registry, undefined);
    case "set":
      return isSameArray(elementsOf(shadow, "set"), [...(value as Set<unknown>)], registry, undefined);
    case "date": {
      const time = (value as Date).getTime();
      return isTag(shadow, "date", Number.isNaN(time) ? null : new Date(time).toISOString());
    }
    case "url":
      return isTag(shadow, "url", (value as URL).href);
    case "bytes":
    case "buffer":
      return isSameBytes(shadow, value as Uint8Array, kind);
    case undefined:
      return false;
    default: {
      const tag = isPlainObject(shadow) ? tagOf(shadow) : undefined;
      if (tag?.[0] !== "class" || tag[1] !== kind.name) return false;
      return equalsShadow(tag[2] ?? null, encodeInstance(kind, value, undefined), registry);
    }
  }
}

/** The elements of a list of that kind, wherever they are kept. */
export function elementsOf(shadow: Shadow, kind: "array" | "map" | "set"): Shadow[] | undefined {
  if (shadow instanceof ListNode) return shadow.kind === kind ? shadow.elements : undefined;
  if (Array.isArray(shadow)) return kind === "array" ? shadow : undefined;
  const tag = isPlainObject(shadow) ? tagOf(shadow) : undefined;
  return tag?.[0] === kind && Array.isArray(tag[1]) ? tag[1] : undefined;
}

export function isPlainObject(shadow: Shadow): shadow is ShadowObject {
  return typeof shadow === "object" && shadow !== null && Object.getPrototypeOf(shadow) === Object.prototype;
}

function isSameArray(
  elements: Shadow[] | undefined,
  array: readonly unknown[],
  registry: ClassRegistry,
  frozen: unknown,
): boolean {
  if (elements?.length !== array.length) return false;
  for (let index = 0; index < array.length; index++) {
    const theirs = array[index];
    if (elements[index] === theirs && theirs !== 0) continue;
    if (!equalsElement(elements, index, array, index, registry, frozen)) return false;
  }
  return true;
}

/** One element of an array; a hole equals nothing, so that it is met, and refused, where new elements are copied. */
export function equalsElement(
  elements: readonly Shadow[],
  at: number,
  array: readonly unknown[],
  index: number,
  registry: ClassRegistry,
  frozen: unknown,
): boolean {
  const value = array[index];
  if (value === undefined && !(index in array)) return false;
  return equalsShadow(elements[at] as Shadow, value, registry, (frozen as unknown[] | undefined)?.[at]);
}

function isSameEntries(node: ListNode, value: object, registry: ClassRegistry, frozen: unknown): boolean {
  const keys = Object.keys(value);
  const live = value as Record<string, unknown>;
  const ours = node.keys as string[];
  if (keys.length !== ours.length) return false;
  for (let index = 0; index < keys.length; index++) {
    const key = keys[index] as string;
    if (key !== ours[index]) return false;
    const before = (frozen as Record<string, unknown> | undefined)?.[key];
    if (!equalsShadow(node.elements[index] as Shadow, live[key], registry, before)) return false;
  }
  return true;
}

function isSameRecord(
  shadow: ShadowObject,
  value: Record<string, unknown>,
  registry: ClassRegistry,
  frozen: unknown,
): boolean {
  const keys = Object.keys(shadow);
  if (keys.length === 1 && keys[0] === TAG) return isSameTagged(shadow, "object", value, registry);
  let index = 0;
  // Inherited keys, where somebody has given Object.prototype some, make it unequal: that costs bytes, nothing else.
  for (const key in value) {
    if (keys[index++] !== key) return false;
    const ours = shadow[key] as Shadow;
    const theirs = value[key];
    if (ours === theirs && theirs !== 0) continue;
    if (!equalsShadow(ours, theirs, registry, (frozen as Record<string, unknown> | undefined)?.[key])) return false;
  }
  return index === keys.length;
}

/** An object stored as a tag with a list of its entries. */
function isSameTagged(shadow: Shadow, name: "object" | "dict", value: object, registry: ClassRegistry): boolean {
  const tag = isPlainObject(shadow) ? tagOf(shadow) : undefined;
  if (tag?.[0] !== name) return false;
  return isSameArray(tag[1] as Shadow[], Object.entries(value), registry, undefined);
}

function isSameBytes(shadow: Shadow, value: Uint8Array, kind: "bytes" | "buffer"): boolean {
  if (shadow instanceof BlobNode) {
    return shadow.isBuffer === (kind === "buffer") && Buffer.compare(shadow.content, value) === 0;
  }
  return isTag(shadow, kind, Buffer.from(value.buffer, value.byteOffset, value.length).toString("base64"));
}

function isTag(shadow: Shadow, name: string, content: Shadow | undefined): boolean {
  const tag = isPlainObject(shadow) ? tagOf(shadow) : undefined;
  return tag !== undefined && tag[0] === name && tag[1] === content;
}
