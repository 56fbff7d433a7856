/**
 * Compares a live value with a shadow. The order of keys matters, and numbers are compared with `Object.is`.
 *
 * Only the values themselves are trusted, with one exception: named properties and symbols that were added to an array, and
 * symbols that were added to an object, after it was first saved are not noticed. Searching for them would cost as much as
 * the rest of the comparison.
 */
import type { ClassRegistry } from "./class-registry.js";
import { kindOf } from "./kind.js";
import {
  BlobNode,
  isPlainObject,
  isStoredNode,
  ListNode,
  type Shadow,
  type ShadowObject,
  type StoredNode,
  TAG,
  tagOf,
  TextNode,
  ValueNode,
} from "./shadow.js";
import { encodeInstance, nameOfNumber, timeOf, toBase64 } from "./value-to-shadow.js";

/**
 * Whether a live value equals a shadow.
 *
 * @param frozen the live value that the shadow was made from, if Savepoint has deep-frozen it: an identical object is equal
 *   without further comparison
 */
export function equalsShadow(shadow: Shadow, value: unknown, registry: ClassRegistry, frozen?: unknown): boolean {
  switch (typeof value) {
    case "string":
      return shadow === value || (isStoredNode(shadow) && textOf(shadow) === value);
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
      // A shortcut for plain objects, which are most of every state.
      if (Object.getPrototypeOf(value) === Object.prototype && Object.getPrototypeOf(shadow) === Object.prototype) {
        return equalsRecord(shadow as ShadowObject, value as Record<string, unknown>, registry, frozen);
      }
      return equalsObject(unwrap(shadow), value, registry, frozen);
    default:
      return false;
  }
}

/**
 * Whether an element of an array equals the element of a list at `at`. A hole in the array equals nothing, so the hole
 * is rejected where new elements are copied.
 *
 * @param frozen the array that the list was made from, if it is deep-frozen
 */
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

/** The string that a node represents: one in segments, or one that a run has recorded; `undefined` for any other node. */
function textOf(node: StoredNode): Shadow | undefined {
  if (node instanceof ValueNode) return node.value;
  return node instanceof TextNode && node.dense === undefined ? node.text : undefined;
}

/** The value inside a node that is stored as one value or as its JSON; any other shadow itself. */
function unwrap(shadow: Shadow): Shadow {
  if (shadow instanceof ValueNode) return shadow.value;
  return shadow instanceof TextNode && shadow.dense !== undefined ? shadow.dense : shadow;
}

function equalsObject(shadow: Shadow, value: object, registry: ClassRegistry, frozen: unknown): boolean {
  const kind = kindOf(value, registry);
  switch (kind) {
    case "array":
      return equalsArray(elementsOf(shadow, "array"), value as unknown[], registry, frozen);
    case "object":
      if (shadow instanceof ListNode) return shadow.kind === "object" && equalsEntries(shadow, value, registry, frozen);
      return isPlainObject(shadow) && equalsRecord(shadow, value as Record<string, unknown>, registry, frozen);
    case "dict":
      if (shadow instanceof ListNode) return shadow.kind === "dict" && equalsEntries(shadow, value, registry, frozen);
      return equalsTaggedEntries(shadow, "dict", value, registry);
    case "map":
    case "set":
      return equalsArray(elementsOf(shadow, kind), [...(value as Iterable<unknown>)], registry, undefined);
    case "date":
      return isTag(shadow, "date", timeOf(value as Date));
    case "url":
      return isTag(shadow, "url", (value as URL).href);
    case "bytes":
    case "buffer":
      return equalsBytes(shadow, value as Uint8Array, kind);
    case undefined:
      return false;
    default: {
      const tag = isPlainObject(shadow) ? tagOf(shadow) : undefined;
      if (tag?.[0] !== "class" || tag[1] !== kind.name) return false;
      return equalsShadow(tag[2] ?? null, encodeInstance(kind, value, undefined), registry);
    }
  }
}

/** The elements of an array, Map or Set, whether they are items or inline; `undefined` if it is of another kind. */
function elementsOf(shadow: Shadow, kind: "array" | "map" | "set"): Shadow[] | undefined {
  if (shadow instanceof ListNode) return shadow.kind === kind ? shadow.elements : undefined;
  if (Array.isArray(shadow)) return kind === "array" ? shadow : undefined;
  const tag = isPlainObject(shadow) ? tagOf(shadow) : undefined;
  return tag?.[0] === kind && Array.isArray(tag[1]) ? tag[1] : undefined;
}

function equalsArray(
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

/** An object that is stored as a list of entries. */
function equalsEntries(node: ListNode, value: object, registry: ClassRegistry, frozen: unknown): boolean {
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

/** An object that is inline. */
function equalsRecord(
  shadow: ShadowObject,
  value: Record<string, unknown>,
  registry: ClassRegistry,
  frozen: unknown,
): boolean {
  const keys = Object.keys(shadow);
  if (keys.length === 1 && keys[0] === TAG) return equalsTaggedEntries(shadow, "object", value, registry);
  let index = 0;
  // Keys inherited from a modified Object.prototype make the objects unequal. That costs bytes and nothing else.
  for (const key in value) {
    if (keys[index++] !== key) return false;
    const ours = shadow[key] as Shadow;
    const theirs = value[key];
    if (ours === theirs && theirs !== 0) continue;
    if (!equalsShadow(ours, theirs, registry, (frozen as Record<string, unknown> | undefined)?.[key])) return false;
  }
  return index === keys.length;
}

/** An object that is inline as a tag with a list of its entries. */
function equalsTaggedEntries(shadow: Shadow, name: "object" | "dict", value: object, registry: ClassRegistry): boolean {
  const tag = isPlainObject(shadow) ? tagOf(shadow) : undefined;
  if (tag?.[0] !== name) return false;
  return equalsArray(tag[1] as Shadow[], Object.entries(value), registry, undefined);
}

function equalsBytes(shadow: Shadow, value: Uint8Array, kind: "bytes" | "buffer"): boolean {
  if (!(shadow instanceof BlobNode)) return isTag(shadow, kind, toBase64(value));
  return shadow.isBuffer === (kind === "buffer") && Buffer.compare(shadow.content, value) === 0;
}

function isTag(shadow: Shadow, name: string, content: Shadow | undefined): boolean {
  const tag = isPlainObject(shadow) ? tagOf(shadow) : undefined;
  return tag !== undefined && tag[0] === name && tag[1] === content;
}
