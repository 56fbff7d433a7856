/**
 * A plain JSON value as one flat list, for fast comparison with a live value that is probably equal: it needs no property
 * lookups on the stored side, and one step per part.
 *
 * The list has the parts in depth-first order: for an object the list of its keys and then its values, for an array its
 * {@link Length} and then its elements, and every primitive as it is.
 */
import { isStoredNode, type Shadow, TAG, ValueNode } from "./shadow.js";

/** A flat value; see {@link flatten}. */
export type Flat = readonly (null | boolean | number | string | readonly string[] | Length)[];

/** Marks an array and its length. */
class Length {
  constructor(readonly length: number) {}
}

/** The flat form of a shadow; `null` if it contains anything but plain JSON, inline or stored as one item. */
export function flatten(shadow: Shadow): Flat | null {
  const flat: (null | boolean | number | string | readonly string[] | Length)[] = [];
  const add = (part: Shadow): boolean => {
    if (typeof part !== "object" || part === null) {
      flat.push(part);
      return true;
    }
    if (Array.isArray(part)) {
      flat.push(new Length(part.length));
      return part.every(add);
    }
    // Its content never changes, unless there is a list in it.
    if (part instanceof ValueNode) return add(part.value);
    if (isStoredNode(part)) return false;
    const keys = Object.keys(part);
    if (keys.includes(TAG)) return false;
    flat.push(internKeys(keys));
    return keys.every((key) => add(part[key] as Shadow));
  };
  return add(shadow) ? flat : null;
}

/** The index of the part that is compared next. A module variable, so that the hot functions need no cursor object. */
let next = 0;

/**
 * Whether a live value is certainly equal to a flat one. `false` proves nothing, because an array of another realm may
 * still be equal.
 */
export function equalsFlat(flat: Flat, value: unknown): boolean {
  const before = next;
  next = 0;
  const same = typeof value === "object" && value !== null ? equalsObject(flat, value) : equalsPrimitive(flat, value);
  // A getter may call this during another comparison.
  next = before;
  return same;
}

function equalsPrimitive(flat: Flat, value: unknown): boolean {
  return flat[next++] === value && (value !== 0 || !Object.is(value, -0));
}

// Inlined on purpose: a save spends most of its time here, and a call per part would be noticeable.
function equalsObject(flat: Flat, value: object): boolean {
  const part = flat[next++];
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === Object.prototype) {
    if (!Array.isArray(part)) return false;
    let index = 0;
    for (const key in value) {
      if (part[index++] !== key) return false;
      const child = (value as Record<string, unknown>)[key];
      if (typeof child === "string") {
        if (flat[next++] !== child) return false;
      } else if (typeof child === "object" && child !== null) {
        if (!equalsObject(flat, child)) return false;
      } else if (!equalsPrimitive(flat, child)) return false;
    }
    return index === part.length;
  }
  if (prototype !== Array.prototype || !(part instanceof Length) || !Array.isArray(value)) return false;
  const elements: unknown[] = value;
  if (elements.length !== part.length) return false;
  for (let index = 0; index < elements.length; index++) {
    const element = elements[index];
    const same =
      typeof element === "object" && element !== null ? equalsObject(flat, element) : equalsPrimitive(flat, element);
    if (!same) return false;
  }
  return true;
}

/** Shared lists of keys by their JSON. Most objects of a state have the same keys as others. */
const keyLists = new Map<string, readonly string[]>();
const MAX_KEY_LISTS = 1000;

function internKeys(keys: readonly string[]): readonly string[] {
  const json = JSON.stringify(keys);
  const interned = keyLists.get(json);
  if (interned) return interned;
  if (keyLists.size >= MAX_KEY_LISTS) keyLists.clear();
  keyLists.set(json, keys);
  return keys;
}
