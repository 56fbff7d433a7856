/**
 * Decides what of a new, inline shadow moves out of its frame into items of its own.
 *
 * Small things stay. Long strings become chunks, arrays and objects with many keys become lists with an item per
 * element, and an object with few keys stays as the frame around its large children.
 */
import {
  SEGMENT_LENGTH,
  type FrameLimits,
  ITEM_LIMITS,
  MAX_INLINE_KEYS,
  MAX_VALUE_SIZE,
  MIN_ELEMENT_SIZE,
} from "./limits.js";
import { isPlainObject } from "./equality.js";
import {
  estimateSize,
  hasNodes,
  isStoredNode,
  ListNode,
  setKey,
  type Shadow,
  type ShadowObject,
  tagOf,
  TextNode,
  ValueNode,
} from "./shadow.js";
import { segmentLengths } from "./text-segments.js";

/** A child of a frame: stays inline while it is small, else becomes a node or keeps only its small parts. */
export function layoutChild(shadow: Shadow, limits: FrameLimits): Shadow {
  if (isStoredNode(shadow)) return shadow;
  const size = estimateSize(shadow);
  if (size <= limits.child) return shadow;
  if (typeof shadow === "string") return newText(shadow, undefined);
  if (typeof shadow !== "object" || shadow === null) return shadow;
  if (Array.isArray(shadow)) return newList("array", shadow, size);
  const tag = tagOf(shadow);
  if (tag) return settleTagged(shadow, tag, size);
  if (Object.keys(shadow).length > MAX_INLINE_KEYS) return newList("object", Object.entries(shadow), size);
  const framed: ShadowObject = {};
  for (const key of Object.keys(shadow)) setKey(framed, key, layoutChild(shadow[key] as Shadow, limits));
  return layoutFrame(framed, limits);
}

/** An object whose children are settled: may it stay inline itself? */
export function layoutFrame(framed: ShadowObject, limits: FrameLimits): Shadow {
  const size = estimateSize(framed);
  const keys = Object.keys(framed).length;
  if (size <= limits.self && keys <= MAX_INLINE_KEYS) return framed;
  if (size <= MAX_VALUE_SIZE && !hasNodes(framed)) return new ValueNode(framed);
  return newList("object", Object.entries(framed), size);
}

/** An element of a list: one item, whose large parts move out only when it is large as a whole. */
export function layoutElement(shadow: Shadow): Shadow {
  if (isStoredNode(shadow) || estimateSize(shadow) <= ITEM_LIMITS.self) return shadow;
  return layoutChild(shadow, ITEM_LIMITS);
}

function settleTagged(shadow: Shadow, tag: readonly [string, ...Shadow[]], size: number): Shadow {
  const [name, content] = tag;
  if ((name === "map" || name === "set" || name === "object" || name === "dict") && Array.isArray(content)) {
    return newList(name, content, size);
  }
  return new ValueNode(shadow);
}

function newText(text: string, dense: Shadow | undefined): TextNode {
  return new TextNode(text, segmentLengths(text), dense);
}

/** A list of `parts`: elements, or `[key, value]` pairs for the kinds that have keys. */
function newList(kind: ListNode["kind"], parts: Shadow[], size: number): Shadow {
  const keyed = kind === "object" || kind === "dict";
  if (size > SEGMENT_LENGTH && size / parts.length < MIN_ELEMENT_SIZE) {
    const dense = kind === "array" ? parts : kind === "object" ? toRecord(parts) : undefined;
    if (dense !== undefined && !hasNodes(dense)) return newText(JSON.stringify(dense), dense);
  }
  if (!keyed) return new ListNode(kind, parts.map(layoutElement), undefined);
  const keys = parts.map((part) => (part as [string, Shadow])[0]);
  return new ListNode(
    kind,
    parts.map((part) => layoutElement((part as [string, Shadow])[1])),
    keys,
  );
}

function toRecord(entries: readonly Shadow[]): ShadowObject | undefined {
  const record: ShadowObject = {};
  for (const entry of entries as [string, Shadow][]) {
    if (entry[0] === "$") return undefined;
    setKey(record, entry[0], entry[1]);
  }
  return record;
}

/** Is it a frame object: plain, untagged, standing inline? */
export function isFrameObject(shadow: Shadow): shadow is ShadowObject {
  return isPlainObject(shadow) && tagOf(shadow) === undefined;
}
