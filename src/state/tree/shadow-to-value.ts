/** Converts a shadow to a live value. The value is mutable and shares nothing with the shadow but strings. */
import { SavepointError } from "../../errors.js";
import { kindOf } from "./kind.js";
import { MAX_DEPTH } from "./limits.js";
import type { ClassRegistry } from "./class-registry.js";
import {
  BlobNode,
  isPlainObject,
  ListNode,
  setKey,
  type Shadow,
  type ShadowArray,
  type ShadowObject,
  tagOf,
  TextNode,
  ValueNode,
} from "./shadow.js";

/** @param registry the classes whose instances the shadow may contain */
export function shadowToValue(shadow: Shadow, registry: ClassRegistry): unknown {
  if (typeof shadow !== "object" || shadow === null) return shadow;
  if (isPlainObject(shadow)) {
    const tag = tagOf(shadow);
    return tag ? tagToValue(tag, registry) : copyRecord(shadow, registry);
  }
  if (shadow instanceof ListNode) return listToValue(shadow.kind, shadow.elements, shadow.keys, registry);
  if (shadow instanceof TextNode)
    return shadow.dense === undefined ? shadow.text : shadowToValue(shadow.dense, registry);
  if (shadow instanceof ValueNode) return shadowToValue(shadow.value, registry);
  if (shadow instanceof BlobNode) return copyBytes(shadow.content, shadow.isBuffer);
  return (shadow as ShadowArray).map((part) => shadowToValue(part, registry));
}

/** Copies an object. Every load copies all objects of a state, often in a process that has not compiled this yet. */
function copyRecord(shadow: ShadowObject, registry: ClassRegistry): unknown {
  const value: Record<string, unknown> = { ...shadow };
  for (const key in value) {
    const part = value[key];
    // The key exists, so this sets it even if it is `__proto__`.
    if (typeof part === "object" && part !== null) value[key] = shadowToValue(part as Shadow, registry);
  }
  return value;
}

/**
 * Deep-freezes a state that `update` returned, except for parts that it shares with `before`, which is already frozen.
 *
 * @returns whether all of it is frozen. A Date, a Map or bytes stay mutable; then identity does not prove equality
 */
export function freezeState(value: unknown, registry: ClassRegistry, before?: unknown): boolean {
  return freeze(value, registry, before, new Set(), 0);
}

function freeze(
  value: unknown,
  registry: ClassRegistry,
  before: unknown,
  visited: Set<object>,
  depth: number,
): boolean {
  if (typeof value !== "object" || value === null || value === before) return true;
  // Cycles and too deep nesting are rejected, with their path, when the state is saved.
  if (visited.has(value)) return true;
  if (depth >= MAX_DEPTH) return false;
  visited.add(value);
  const kind = kindOf(value, registry);
  if (kind !== "array" && kind !== "object" && kind !== "dict") return false;
  Object.freeze(value);
  let isFrozen = true;
  if (Array.isArray(value)) {
    const old: unknown[] = Array.isArray(before) ? before : [];
    for (let index = 0; index < value.length; index++) {
      if (value[index] !== old[index])
        isFrozen = freeze(value[index], registry, old[index], visited, depth + 1) && isFrozen;
    }
    return isFrozen;
  }
  const old = typeof before === "object" && before !== null ? (before as Record<string, unknown>) : {};
  for (const key of Object.keys(value)) {
    isFrozen = freeze((value as Record<string, unknown>)[key], registry, old[key], visited, depth + 1) && isFrozen;
  }
  return isFrozen;
}

function listToValue(
  kind: ListNode["kind"],
  elements: Shadow[],
  keys: string[] | undefined,
  registry: ClassRegistry,
): unknown {
  switch (kind) {
    case "array":
      return elements.map((element) => shadowToValue(element, registry));
    case "set":
      return new Set(elements.map((element) => shadowToValue(element, registry)));
    case "map":
      return new Map(elements.map((pair) => toPair(shadowToValue(pair, registry))));
    default: {
      const value = (kind === "dict" ? Object.create(null) : {}) as Record<string, unknown>;
      for (const [index, key] of (keys ?? []).entries())
        setKey(value, key, shadowToValue(elements[index] as Shadow, registry));
      return value;
    }
  }
}

/** The entry of a Map. Large ones are lists in items, so their content is known only now. */
function toPair(value: unknown): [unknown, unknown] {
  if (Array.isArray(value) && value.length === 2) return value as [unknown, unknown];
  throw new SavepointError("DAMAGED", "A stored Map is damaged: an entry of it is not a key and a value.");
}

function tagToValue([name, ...content]: [string, ...Shadow[]], registry: ClassRegistry): unknown {
  const first = content[0] as string;
  switch (name) {
    case "undefined":
      return undefined;
    case "number":
      return Number(first);
    case "bigint":
      return BigInt(first);
    case "date":
      return new Date(first === null ? Number.NaN : first);
    case "url":
      return new URL(first);
    case "bytes":
    case "buffer":
      return copyBytes(Buffer.from(first, "base64"), name === "buffer");
    case "map":
    case "set":
      return listToValue(name, inlineContent(content[0]), undefined, registry);
    case "object":
    case "dict": {
      const entries = inlineContent(content[0]) as [string, Shadow][];
      const keys = entries.map(([key]) => key);
      const values = entries.map(([, value]) => value);
      return listToValue(name, values, keys, registry);
    }
    case "class":
      return registry.byName(first).decode(shadowToValue(content[1] as Shadow, registry));
    default:
      throw new SavepointError(
        "STORE_TOO_NEW",
        `The state contains a value of kind ${JSON.stringify(name)}, which this version of Savepoint does not support. Update the package.`,
      );
  }
}

/** The elements of a small list. A position in refs stands there only in a frame that has refs, and is resolved before. */
function inlineContent(content: Shadow | undefined): Shadow[] {
  if (Array.isArray(content)) return content;
  throw new SavepointError("DAMAGED", "A stored list is damaged: its elements are missing.");
}

function copyBytes(content: Uint8Array, isBuffer: boolean): Uint8Array {
  return isBuffer ? Buffer.from(content) : new Uint8Array(content);
}
