/**
 * Updates the shadow of the previous state to the shadow of a new one, without relying on the caller to report changes.
 *
 * Equal parts keep their items. In a list, elements may have been added, removed, replaced or moved: a new element that
 * equals an old one keeps its item, wherever it is now, and only the others are written. A changed element that contains
 * lists is itself revised, so that a long list inside it is not written again.
 */
import { isSavepointError } from "../../errors.js";
import type { ClassRegistry } from "./class-registry.js";
import { equalsElement, equalsShadow } from "./equality.js";
import { equalsFlat, flatten } from "./flat.js";
import { kindOf } from "./kind.js";
import { isFrameObject, isStillDense, layoutChild, layoutElement, layoutFrame, layoutState } from "./layout.js";
import { type FrameLimits, ITEM_LIMITS, SKELETON_LIMITS } from "./limits.js";
import { ListEdit, matchElements } from "./list-edit.js";
import type { Path } from "./pointer.js";
import type { RecordedValues } from "./recorded-values.js";
import { hasNodes, ListNode, replaceRange, setKey, type Shadow, type ShadowObject, TAG, TextNode } from "./shadow.js";
import { validateArray, validateKeys } from "./storability.js";
import { editSegments } from "./text-segments.js";
import { pathKeyOf, valueToShadow } from "./value-to-shadow.js";

/** Builds the shadow of a state that has no predecessor. */
export function newShadow(value: unknown, registry: ClassRegistry): Shadow {
  return layoutState(valueToShadow(value, registry));
}

/**
 * Builds the shadow of `value` from the shadow of the previous state, which is changed in place.
 *
 * @param frozen the previous state, if Savepoint has deep-frozen it
 * @param recorded values that are already stored as items; new parts that equal one refer to its item
 */
export function reviseShadow(
  shadow: Shadow,
  value: unknown,
  registry: ClassRegistry,
  frozen?: unknown,
  recorded?: RecordedValues,
): Shadow {
  try {
    return new Revision(registry, recorded).child(shadow, value, SKELETON_LIMITS, undefined, frozen);
  } catch (error) {
    // A state is rejected for the same reason and with the same path whether or not it has a predecessor.
    const fresh = newShadow(value, registry);
    if (isSavepointError(error, "INVALID_STATE")) return fresh;
    throw error;
  }
}

/** In all methods, `frozen` is the deep-frozen value that the shadow was made from, or `undefined` if it was not frozen. */
class Revision {
  readonly #registry: ClassRegistry;
  readonly #recorded: RecordedValues | undefined;

  constructor(registry: ClassRegistry, recorded: RecordedValues | undefined) {
    this.#registry = registry;
    this.#recorded = recorded;
  }

  /** Revises a child of a frame. */
  child(shadow: Shadow, value: unknown, limits: FrameLimits, path: Path | undefined, frozen: unknown): Shadow {
    if (frozen !== undefined && frozen === value) return shadow;
    return this.#revise(shadow, value, limits, path, frozen) ?? layoutChild(this.#copy(value, path), limits);
  }

  /** `undefined` if no part of the shadow can be kept. */
  #revise(
    shadow: Shadow,
    value: unknown,
    limits: FrameLimits,
    path: Path | undefined,
    frozen: unknown,
  ): Shadow | undefined {
    // Lists and frames detect changes while they are revised. Comparing them first would do it twice.
    if (shadow instanceof ListNode) return this.#list(shadow, value, path, frozen);
    if (isFrameObject(shadow)) {
      return this.#isFrameable(value) ? this.#frame(shadow, value, limits, path, frozen) : undefined;
    }
    if (equalsShadow(shadow, value, this.#registry, frozen)) return shadow;
    return shadow instanceof TextNode ? this.#text(shadow, value, limits, path) : undefined;
  }

  #isFrameable(value: unknown): value is Record<string, unknown> {
    if (typeof value !== "object" || value === null) return false;
    return kindOf(value, this.#registry) === "object" && !Object.hasOwn(value, TAG);
  }

  /** Copies a new part, in which values that are already recorded refer to their items. */
  #copy(value: unknown, path: Path | undefined, isElement = false): Shadow {
    const copy = valueToShadow(value, this.#registry, path, depthOf(path));
    return this.#recorded ? this.#recorded.replaceWithRefs(copy, value, isElement) : copy;
  }

  #frame(
    shadow: ShadowObject,
    value: Record<string, unknown>,
    limits: FrameLimits,
    path: Path | undefined,
    frozen: unknown,
  ): Shadow {
    validateKeys(value, path);
    const frame: ShadowObject = {};
    const keys = Object.keys(value);
    const oldKeys = Object.keys(shadow);
    let isChanged = keys.length !== oldKeys.length;
    for (const [index, key] of keys.entries()) {
      const at = { parent: path, key };
      const old = Object.hasOwn(shadow, key) ? shadow[key] : undefined;
      const child =
        old === undefined
          ? layoutChild(this.#copy(value[key], at), limits)
          : this.child(old, value[key], limits, at, (frozen as Record<string, unknown> | undefined)?.[key]);
      setKey(frame, key, child);
      isChanged ||= child !== old || key !== oldKeys[index];
    }
    return isChanged ? layoutFrame(frame, limits) : shadow;
  }

  /** `undefined` if the value is empty or no longer of the list's kind. */
  #list(list: ListNode, value: unknown, path: Path | undefined, frozen: unknown): Shadow | undefined {
    if (typeof value !== "object" || value === null || kindOf(value, this.#registry) !== list.kind) return undefined;
    switch (list.kind) {
      case "array":
        return this.#elements(list, value as unknown[], path, frozen);
      case "map":
      case "set":
        return this.#elements(list, [...(value as Iterable<unknown>)], path, undefined);
      default:
        return this.#entries(list, value as Record<string, unknown>, path, frozen);
    }
  }

  #elements(list: ListNode, values: readonly unknown[], path: Path | undefined, frozen: unknown): ListNode | undefined {
    if (values.length === 0) return undefined;
    const old = list.elements;
    const isSame = (at: number, index: number): boolean =>
      (frozen === undefined && this.#equalsFlat(list, at, values[index])) ||
      equalsElement(old, at, values, index, this.#registry, frozen);
    const shared = Math.min(old.length, values.length);
    let start = 0;
    // The hot loop of a save: almost all of a state is found to be unchanged here.
    if (frozen === undefined) while (start < shared && this.#equalsFlat(list, start, values[start])) start++;
    else while (start < shared && isObject(values[start]) && (frozen as unknown[])[start] === values[start]) start++;
    while (start < shared && isSame(start, start)) start++;
    if (start === old.length && start === values.length) return list;
    let tail = 0;
    while (tail < shared - start && isSame(old.length - 1 - tail, values.length - 1 - tail)) tail++;

    const oldRange = { start, end: old.length - tail };
    const newRange = { start, end: values.length - tail };
    const matches = matchElements(old, oldRange, values, newRange, isSame);
    const matched = new Set(matches);
    const edit = new ListEdit(list, oldRange);
    // The old element that a new one is compared with in detail: the one after the last that was kept or replaced.
    let previous = start - 1;
    for (const [offset, match] of matches.entries()) {
      const index = start + offset;
      if (match >= 0) {
        edit.keep(match);
        previous = match;
        continue;
      }
      if (!(index in values)) validateArray(values, path);
      const counterpart = previous + 1 < oldRange.end && !matched.has(previous + 1) ? ++previous : undefined;
      const recorded = list.kind === "array" ? this.#recorded?.claimElement(values[index]) : undefined;
      if (recorded) {
        edit.share(recorded);
        continue;
      }
      const at = { parent: path, key: elementKey(list, values[index], index) };
      const before = counterpart === undefined ? undefined : (frozen as unknown[] | undefined)?.[counterpart];
      edit.add(this.#element(counterpart === undefined ? undefined : old[counterpart], values[index], at, before));
    }
    edit.apply();
    return list;
  }

  #entries(
    list: ListNode,
    value: Record<string, unknown>,
    path: Path | undefined,
    frozen: unknown,
  ): ListNode | undefined {
    const keys = Object.keys(value);
    if (keys.length === 0) return undefined;
    validateKeys(value, path);
    const oldKeys = list.keys as string[];
    const before = frozen as Record<string, unknown> | undefined;
    const isSame = (at: number, key: string): boolean =>
      oldKeys[at] === key &&
      ((before === undefined && this.#equalsFlat(list, at, value[key])) ||
        equalsShadow(list.elements[at] as Shadow, value[key], this.#registry, before?.[key]));
    const shared = Math.min(oldKeys.length, keys.length);
    let start = 0;
    while (start < shared && isSame(start, keys[start] as string)) start++;
    if (start === oldKeys.length && start === keys.length) return list;
    let tail = 0;
    while (tail < shared - start && isSame(oldKeys.length - 1 - tail, keys[keys.length - 1 - tail] as string)) tail++;

    const oldRange = { start, end: oldKeys.length - tail };
    const places = new Map<string, number>();
    for (let at = oldRange.start; at < oldRange.end; at++) places.set(oldKeys[at] as string, at);
    const edit = new ListEdit(list, oldRange);
    for (const key of keys.slice(start, keys.length - tail)) {
      const at = places.get(key);
      if (at !== undefined && isSame(at, key)) edit.keep(at);
      else {
        const old = at === undefined ? undefined : list.elements[at];
        edit.add(this.#element(old, value[key], { parent: path, key }, before?.[key]), key);
      }
    }
    edit.apply();
    return list;
  }

  /** Revises an element that contains nodes, to keep them. Copies any other element, because it is rewritten anyway. */
  #element(old: Shadow | undefined, value: unknown, path: Path, frozen: unknown): Shadow {
    if (old !== undefined && hasNodes(old)) return this.child(old, value, ITEM_LIMITS, path, frozen);
    return layoutElement(this.#copy(value, path, true));
  }

  /** Whether an element of a list is certainly equal to a value. */
  #equalsFlat(list: ListNode, at: number, value: unknown): boolean {
    const flat = list.memoized(at, flatten);
    return flat !== null && equalsFlat(flat, value);
  }

  /** Revises a long string or a dense value; `undefined` if the value is no longer long. */
  #text(node: TextNode, value: unknown, limits: FrameLimits, path: Path | undefined): Shadow | undefined {
    let text = value;
    let dense: Shadow | undefined;
    if (node.dense !== undefined) {
      dense = valueToShadow(value, this.#registry, path, depthOf(path));
      if (!isStillDense(dense)) return layoutChild(dense, limits);
      text = JSON.stringify(dense);
    }
    if (typeof text !== "string" || text.length <= limits.child) return undefined;
    const { start, remove, lengths } = editSegments(node.text, node.lengths, text);
    node.text = text;
    node.dense = dense;
    node.lengths = replaceRange(node.lengths, start, start + remove, lengths);
    const sizes = lengths.map(() => 0);
    node.splice(start, start + remove, sizes, [{ from: start, count: lengths.length }]);
    return node;
  }
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null;
}

function elementKey(list: ListNode, value: unknown, index: number): string | number {
  return list.kind === "map" ? pathKeyOf((value as [unknown, unknown])[0], index) : index;
}

function depthOf(path: Path | undefined): number {
  let depth = 0;
  for (let at = path; at; at = at.parent) depth++;
  return depth;
}
