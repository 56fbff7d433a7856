/**
 * Brings a shadow up to date with a new state, finding what has changed without trusting the caller.
 *
 * What is equal keeps its items. In a list, elements may have been added, removed, replaced or moved anywhere: each new
 * element that equals an old one keeps its item, wherever it now stands, and only the rest is written. A changed element
 * that itself contains lists is revised in turn, so that a long list inside it is not written again.
 */
import { isSavepointError } from "../../errors.js";
import { checkArray, checkKeys, valueToShadow, keyName } from "./value-to-shadow.js";
import { equalsFlat, flatten } from "./flat.js";
import { kindOf } from "./kind.js";
import { SEGMENT_LENGTH, type FrameLimits, ITEM_LIMITS, MIN_ELEMENT_SIZE, SKELETON_LIMITS } from "./limits.js";
import type { Path } from "./pointer.js";
import type { RecordedValues, StoredValue } from "./recorded-values.js";
import type { ClassRegistry } from "./class-registry.js";
import { equalsShadow, equalsElement } from "./equality.js";
import { layoutFrame, isFrameObject, layoutChild, layoutElement } from "./layout.js";
import {
  estimateSize,
  hasNodes,
  ListNode,
  replaceRange,
  setKey,
  type Shadow,
  type ShadowObject,
  type SplicePart,
  TextNode,
} from "./shadow.js";
import { signatureOf } from "./signature.js";
import { editSegments } from "./text-segments.js";

/** The shadow of a state that nothing is known about. */
export function newShadow(value: unknown, registry: ClassRegistry): Shadow {
  return layoutState(valueToShadow(value, registry));
}

/** The same for a state that was copied before, by {@link valueToShadow}. */
export function layoutState(copy: Shadow): Shadow {
  return layoutChild(copy, SKELETON_LIMITS);
}

/**
 * The shadow of `value`, made from the shadow of the state before it, which is changed in place.
 *
 * @param frozen the state before it, where Savepoint has deep-frozen it
 * @param recorded values that are items already: elements that equal one refer to it
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
    // A state is refused for the same reason and with the same path whether or not one was saved before it.
    const fresh = newShadow(value, registry);
    if (isSavepointError(error, "INVALID_STATE")) return fresh;
    throw error;
  }
}

/** Adds elements at the end of a list, for the price of what is added. */
export function appendElements(
  list: ListNode,
  values: readonly unknown[],
  registry: ClassRegistry,
  path: Path | undefined,
): void {
  const from = list.elements.length;
  for (const [index, value] of values.entries()) {
    list.elements.push(layoutElement(valueToShadow(value, registry, { parent: path, key: from + index })));
  }
  const unknown = values.map(() => 0);
  list.splice(from, from, unknown, [{ from, count: values.length }]);
}

class Revision {
  constructor(
    readonly registry: ClassRegistry,
    readonly recorded: RecordedValues | undefined,
  ) {}

  child(shadow: Shadow, value: unknown, limits: FrameLimits, path: Path | undefined, frozen: unknown): Shadow {
    if (frozen !== undefined && frozen === value) return shadow;
    // Lists and frames find out by themselves whether anything has changed: comparing them first would do it twice.
    if (shadow instanceof ListNode) {
      const revised = this.list(shadow, value, path, frozen);
      if (revised) return revised;
    } else if (!isFrameObject(shadow) && equalsShadow(shadow, value, this.registry, frozen)) return shadow;
    if (shadow instanceof TextNode) {
      const revised = this.text(shadow, value, path, limits);
      if (revised) return revised;
    }
    if (isFrameObject(shadow) && typeof value === "object" && value !== null) {
      if (kindOf(value, this.registry) === "object" && !Object.hasOwn(value, "$")) {
        return this.frame(shadow, value as Record<string, unknown>, limits, path, frozen);
      }
    }
    return layoutChild(this.fresh(value, path), limits);
  }

  /** A part that was not there before. */
  fresh(value: unknown, path: Path | undefined): Shadow {
    const copy = valueToShadow(value, this.registry, path, depthOf(path));
    return this.recorded ? this.recorded.replaceWithRefs(copy, value) : copy;
  }

  /** An element of a list: its nested lists are worth keeping, a small one is simply written again. */
  element(shadow: Shadow | undefined, value: unknown, path: Path, frozen: unknown): Shadow {
    if (shadow !== undefined && hasNodes(shadow)) return this.child(shadow, value, ITEM_LIMITS, path, frozen);
    return layoutElement(this.fresh(value, path));
  }

  frame(
    shadow: ShadowObject,
    value: Record<string, unknown>,
    limits: FrameLimits,
    path: Path | undefined,
    frozen: unknown,
  ): Shadow {
    checkKeys(value, path);
    const framed: ShadowObject = {};
    const keys = Object.keys(value);
    const before = Object.keys(shadow);
    let changed = keys.length !== before.length;
    for (const [index, key] of keys.entries()) {
      const at = { parent: path, key };
      const ours = Object.hasOwn(shadow, key) ? shadow[key] : undefined;
      const next =
        ours === undefined
          ? layoutChild(this.fresh(value[key], at), limits)
          : this.child(ours, value[key], limits, at, (frozen as Record<string, unknown> | undefined)?.[key]);
      setKey(framed, key, next);
      changed ||= next !== ours || key !== before[index];
    }
    return changed ? layoutFrame(framed, limits) : shadow;
  }

  /** `undefined` where the value is no longer of the list's kind. */
  list(list: ListNode, value: unknown, path: Path | undefined, frozen: unknown): Shadow | undefined {
    if (typeof value !== "object" || value === null || kindOf(value, this.registry) !== list.kind) return undefined;
    switch (list.kind) {
      case "array":
        if ((value as unknown[]).length === 0) return undefined;
        return this.elements(list, value as unknown[], path, frozen);
      case "map": {
        const pairs = [...(value as Map<unknown, unknown>)];
        return pairs.length === 0 ? undefined : this.elements(list, pairs, path, undefined);
      }
      case "set": {
        const members = [...(value as Set<unknown>)];
        return members.length === 0 ? undefined : this.elements(list, members, path, undefined);
      }
      default:
        return this.entries(list, value as Record<string, unknown>, path, frozen);
    }
  }

  elements(list: ListNode, values: readonly unknown[], path: Path | undefined, frozen: unknown): ListNode {
    const old = list.elements;
    const same = (at: number, index: number): boolean =>
      (frozen === undefined && this.equals(list, at, values[index])) ||
      equalsElement(old, at, values, index, this.registry, frozen);
    const shared = Math.min(old.length, values.length);
    let start = 0;
    // Almost all of a state is found here to be what it was, so nothing stands in the way of the comparison itself.
    while (start < shared && frozen === undefined && this.equals(list, start, values[start])) start++;
    while (start < shared && same(start, start)) start++;
    if (start === old.length && start === values.length) return list;
    let tail = 0;
    while (tail < shared - start && same(old.length - 1 - tail, values.length - 1 - tail)) tail++;
    const end = values.length - tail;

    const matches = matchElements(old, start, old.length - tail, values, start, end, same);
    const taken = new Set(matches);
    const edit = new ListEdit(list, start, old.length - tail);
    let before = start - 1;
    for (let index = start; index < end; index++) {
      const match = matches[index - start] as number;
      if (match >= 0) {
        edit.keep(match);
        before = match;
        continue;
      }
      if (!(index in values)) checkArray(values, path);
      const pair = before + 1 < old.length - tail && !taken.has(before + 1) ? ++before : undefined;
      const at = { parent: path, key: elementKey(list, values[index], index) };
      const ours = pair === undefined ? undefined : old[pair];
      const stored = list.kind === "array" ? this.recorded?.claim(values[index]) : undefined;
      if (stored) edit.share(stored);
      else
        edit.add(this.element(ours, values[index], at, pair === undefined ? undefined : (frozen as unknown[])?.[pair]));
    }
    edit.apply();
    return list;
  }

  /** Is an element of a list certainly the same as a value? */
  equals(list: ListNode, at: number, value: unknown): boolean {
    const flat = list.memoized(at, flatten);
    return flat !== null && equalsFlat(flat, value);
  }

  entries(list: ListNode, value: Record<string, unknown>, path: Path | undefined, frozen: unknown): Shadow | undefined {
    const keys = Object.keys(value);
    if (keys.length === 0) return undefined;
    checkKeys(value, path);
    const old = list.keys as string[];
    const before = frozen as Record<string, unknown> | undefined;
    const same = (at: number, key: string): boolean =>
      old[at] === key &&
      ((before === undefined && this.equals(list, at, value[key])) ||
        equalsShadow(list.elements[at] as Shadow, value[key], this.registry, before?.[key]));
    const shared = Math.min(old.length, keys.length);
    let start = 0;
    while (start < shared && same(start, keys[start] as string)) start++;
    if (start === old.length && start === keys.length) return list;
    let tail = 0;
    while (tail < shared - start && same(old.length - 1 - tail, keys[keys.length - 1 - tail] as string)) tail++;

    const places = new Map<string, number>();
    for (let at = start; at < old.length - tail; at++) places.set(old[at] as string, at);
    const edit = new ListEdit(list, start, old.length - tail);
    for (let index = start; index < keys.length - tail; index++) {
      const key = keys[index] as string;
      const at = places.get(key);
      if (at !== undefined && same(at, key)) edit.keep(at);
      else {
        const ours = at === undefined ? undefined : list.elements[at];
        edit.add(this.element(ours, value[key], { parent: path, key }, before?.[key]), key);
      }
    }
    edit.apply();
    return list;
  }

  text(node: TextNode, value: unknown, path: Path | undefined, limits: FrameLimits): Shadow | undefined {
    let text = value;
    let dense: Shadow | undefined;
    if (node.dense !== undefined) {
      dense = valueToShadow(value, this.registry, path, depthOf(path));
      if (!isStillDense(dense)) return layoutChild(dense, limits);
      text = JSON.stringify(dense);
    }
    if (typeof text !== "string" || text.length <= limits.child) return undefined;
    const { start, remove, lengths } = editSegments(node.text, node.lengths, text);
    node.text = text;
    node.dense = dense;
    node.lengths = replaceRange(node.lengths, start, start + remove, lengths);
    const unknown = lengths.map(() => 0);
    node.splice(start, start + remove, unknown, [{ from: start, count: lengths.length }]);
    return node;
  }
}

/** Collects what the elements `start` to `end` of a list become, and puts it there at once. */
class ListEdit {
  readonly #elements: Shadow[] = [];
  readonly #keys: string[] = [];
  readonly #sizes: number[] = [];
  readonly #parts: SplicePart[] = [];
  /** For each element, where it was before, if it was there. */
  readonly #from: (number | undefined)[] = [];
  #kept: { from: number; count: number } | undefined;
  #fresh: { from: number; count: number } | undefined;

  constructor(
    readonly list: ListNode,
    readonly start: number,
    readonly end: number,
  ) {}

  keep(at: number): void {
    this.#fresh = undefined;
    this.#elements.push(this.list.elements[at] as Shadow);
    this.#from.push(at);
    this.#sizes.push(this.list.sizeOf(at));
    if (this.list.keys) this.#keys.push(this.list.keys[at] as string);
    if (this.#kept && this.#kept.from + this.#kept.count === at) this.#kept.count++;
    else {
      this.#closeKept();
      this.#kept = { from: at, count: 1 };
    }
  }

  add(element: Shadow, key?: string): void {
    this.#closeKept();
    if (this.#fresh) this.#fresh.count++;
    else this.#parts.push((this.#fresh = { from: this.start + this.#elements.length, count: 1 }));
    this.#elements.push(element);
    this.#from.push(undefined);
    this.#sizes.push(0);
    if (key !== undefined) this.#keys.push(key);
  }

  /** An element that is an item already. */
  share({ shadow, piece, bytes }: StoredValue): void {
    this.#closeKept();
    this.#fresh = undefined;
    this.#parts.push({ pieces: [piece] });
    this.#elements.push(shadow);
    this.#from.push(undefined);
    this.#sizes.push(bytes);
  }

  apply(): void {
    this.#closeKept();
    const { list, start, end } = this;
    list.replace(start, end, this.#elements, this.#keys, this.#from);
    list.splice(start, end, this.#sizes, this.#parts);
  }

  #closeKept(): void {
    if (this.#kept) this.#parts.push({ pieces: this.list.tree.slice(this.#kept.from, this.#kept.count) });
    this.#kept = undefined;
  }
}

/**
 * For each new element from `start` to `end`, the index of the old one that it equals, or -1. No old element is given
 * twice: two places sharing one shadow would change together.
 */
function matchElements(
  old: readonly Shadow[],
  oldStart: number,
  oldEnd: number,
  values: readonly unknown[],
  start: number,
  end: number,
  same: (at: number, index: number) => boolean,
): number[] {
  const taken = new Set<number>();
  let bySignature: Map<unknown, number[]> | undefined;
  let expected = oldStart;
  const find = (index: number): number => {
    if (expected < oldEnd && !taken.has(expected) && same(expected, index)) return expected;
    if (oldStart === oldEnd) return -1;
    if (!bySignature) {
      bySignature = new Map();
      for (let at = oldEnd - 1; at >= oldStart; at--) {
        const signature = signatureOf(old[at]);
        const places = bySignature.get(signature);
        if (places) places.push(at);
        else bySignature.set(signature, [at]);
      }
    }
    // Places are kept in descending order, so the first free one is the last of the array. Many equal signatures that
    // are not equal elements are not worth a quadratic search: a miss costs bytes, never correctness.
    const places = bySignature.get(signatureOf(values[index])) ?? [];
    for (let tries = 0; tries < 16 && places.length > tries; tries++) {
      const at = places[places.length - 1 - tries] as number;
      if (taken.has(at)) {
        if (tries === 0) {
          places.pop();
          tries = -1;
        }
        continue;
      }
      if (same(at, index)) return at;
    }
    return -1;
  };
  const matches: number[] = [];
  for (let index = start; index < end; index++) {
    const at = find(index);
    if (at >= 0) {
      taken.add(at);
      expected = at + 1;
    }
    matches.push(at);
  }
  return matches;
}

function elementKey(list: ListNode, value: unknown, index: number): string | number {
  return list.kind === "map" ? keyName((value as [unknown, unknown])[0], index) : index;
}

/** A dense value that has become a few large parts is better stored as those. */
function isStillDense(shadow: Shadow): boolean {
  if (!Array.isArray(shadow) && !isFrameObject(shadow)) return false;
  const size = estimateSize(shadow);
  return !hasNodes(shadow) && size > SEGMENT_LENGTH && size / Object.keys(shadow).length < 2 * MIN_ELEMENT_SIZE;
}

function depthOf(path: Path | undefined): number {
  let depth = 0;
  for (let at = path; at; at = at.parent) depth++;
  return depth;
}
