/**
 * A plain JSON value as one flat list, made to be compared fast with a live value that is most likely the same: no keys
 * to ask for, no objects to look into on our side, one step per part.
 *
 * The list has the parts in the order in which they are met: for an object the list of its keys and then its values, for
 * an array its {@link Length} and then its elements, and everything else as it is.
 */
import { isStoredNode, type Shadow, TAG } from "./shadow.js";

export type Flat = readonly (null | boolean | number | string | readonly string[] | Length)[];

/** Stands for an array of this length. */
class Length {
  constructor(readonly length: number) {}
}

/** The flat form of a shadow; `null` where it is more than plain JSON. */
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
    if (isStoredNode(part)) return false;
    const keys = Object.keys(part);
    if (keys.includes(TAG)) return false;
    flat.push(shared(keys));
    return keys.every((key) => add(part[key] as Shadow));
  };
  return add(shadow) ? flat : null;
}

/** The part that is compared next. */
let next = 0;

/**
 * Is it certain that the live value equals the flat one? Where it is not, it may be equal all the same: an array of
 * another realm, say.
 */
export function equalsFlat(flat: Flat, value: unknown): boolean {
  const before = next;
  next = 0;
  const same = typeof value === "object" && value !== null ? equalsObject(flat, value) : equalsPrimitive(flat, value);
  // A getter may have led here from within another comparison.
  next = before;
  return same;
}

function equalsPrimitive(flat: Flat, value: unknown): boolean {
  return flat[next++] === value && (value !== 0 || !Object.is(value, -0));
}

// Not shorter on purpose: this is where a save spends its time, and a call per part is what it can be spared.
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

/** Lists of keys, by their JSON: most objects of a state have the keys of others. */
const known = new Map<string, readonly string[]>();
const MAX_KNOWN = 1000;

function shared(keys: readonly string[]): readonly string[] {
  const name = JSON.stringify(keys);
  const found = known.get(name);
  if (found) return found;
  if (known.size >= MAX_KNOWN) known.clear();
  known.set(name, keys);
  return keys;
}
