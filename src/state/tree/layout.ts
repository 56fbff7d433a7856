/**
 * Decides which parts of an inline shadow move out of their frame into items.
 *
 * Small parts stay inline. A long string is cut into segments, an array or an object with many keys becomes a list
 * with one item per element, and an object with few keys stays in the frame while its large children move out. A large
 * value whose parts are all tiny is dense: it is stored as segments of its JSON, because an item per part would cost more.
 */
import {
  type FrameLimits,
  ITEM_LIMITS,
  MAX_INLINE_KEYS,
  MAX_VALUE_SIZE,
  MIN_ELEMENT_SIZE,
  SEGMENT_LENGTH,
  SKELETON_LIMITS,
} from "./limits.js";
import {
  estimateSize,
  hasNodes,
  isPlainObject,
  isStoredNode,
  type ListKind,
  ListNode,
  setKey,
  type Shadow,
  type ShadowObject,
  TAG,
  tagOf,
  TextNode,
  ValueNode,
} from "./shadow.js";
import { segmentLengths } from "./text-segments.js";

/** Lays out a whole state. */
export function layoutState(copy: Shadow): Shadow {
  return layoutChild(copy, SKELETON_LIMITS);
}

/** Lays out a child of a frame: inline while it is small, else a node, or an object whose large parts are nodes. */
export function layoutChild(shadow: Shadow, limits: FrameLimits): Shadow {
  if (isStoredNode(shadow)) return shadow;
  const size = estimateSize(shadow);
  if (size <= limits.child) return shadow;
  if (typeof shadow === "string") return newText(shadow, undefined);
  if (typeof shadow !== "object" || shadow === null) return shadow;
  if (Array.isArray(shadow)) return newList("array", shadow, size);
  const tag = tagOf(shadow);
  if (tag) return layoutTagged(shadow, tag, size);
  if (Object.keys(shadow).length > MAX_INLINE_KEYS) return newList("object", Object.entries(shadow), size);
  const frame: ShadowObject = {};
  for (const key of Object.keys(shadow)) setKey(frame, key, layoutChild(shadow[key] as Shadow, limits));
  return layoutFrame(frame, limits);
}

/** Lays out an object whose children are laid out: inline, one item, or a list of entries. */
export function layoutFrame(frame: ShadowObject, limits: FrameLimits): Shadow {
  const size = estimateSize(frame);
  const keys = Object.keys(frame).length;
  if (size <= limits.self && keys <= MAX_INLINE_KEYS) return frame;
  if (size <= MAX_VALUE_SIZE && !hasNodes(frame)) return new ValueNode(frame);
  return newList("object", Object.entries(frame), size);
}

/** Lays out an element of a list. It is one item; its large parts move out only if the element as such is large. */
export function layoutElement(shadow: Shadow): Shadow {
  if (isStoredNode(shadow) || estimateSize(shadow) <= ITEM_LIMITS.self) return shadow;
  return layoutChild(shadow, ITEM_LIMITS);
}

/** Whether a shadow is an untagged inline object. */
export function isFrameObject(shadow: Shadow): shadow is ShadowObject {
  return isPlainObject(shadow) && tagOf(shadow) === undefined;
}

/**
 * Whether a dense value is still better stored as segments of its JSON than as items. The limit is twice that for
 * becoming dense, so that a value near the limit does not alternate between the two forms.
 */
export function isStillDense(shadow: Shadow): boolean {
  if (!Array.isArray(shadow) && !isFrameObject(shadow)) return false;
  const size = estimateSize(shadow);
  return !hasNodes(shadow) && size > SEGMENT_LENGTH && size / Object.keys(shadow).length < 2 * MIN_ELEMENT_SIZE;
}

function layoutTagged(shadow: Shadow, tag: readonly [string, ...Shadow[]], size: number): Shadow {
  const [name, content] = tag;
  if ((name === "map" || name === "set" || name === "object" || name === "dict") && Array.isArray(content)) {
    return newList(name, content, size);
  }
  return new ValueNode(shadow);
}

function newText(text: string, dense: Shadow | undefined): TextNode {
  return new TextNode(text, segmentLengths(text), dense);
}

/** A list of `parts`: elements, or `[key, value]` pairs for an `object` or `dict`. */
function newList(kind: ListKind, parts: Shadow[], size: number): Shadow {
  if (size > SEGMENT_LENGTH && size / parts.length < MIN_ELEMENT_SIZE) {
    const dense = kind === "array" ? parts : kind === "object" ? recordOf(parts) : undefined;
    if (dense !== undefined && !hasNodes(dense)) return newText(JSON.stringify(dense), dense);
  }
  if (kind !== "object" && kind !== "dict") return new ListNode(kind, parts.map(layoutElement), undefined);
  const entries = parts as [string, Shadow][];
  return new ListNode(
    kind,
    entries.map(([, value]) => layoutElement(value)),
    entries.map(([key]) => key),
  );
}

/** The object of some entries; `undefined` if it would look like a tagged value. */
function recordOf(entries: readonly Shadow[]): ShadowObject | undefined {
  const record: ShadowObject = {};
  for (const [key, value] of entries as [string, Shadow][]) {
    if (key === TAG) return undefined;
    setKey(record, key, value);
  }
  return record;
}
