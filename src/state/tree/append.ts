/** Appends elements to a list inside a shadow. Costs O(appended elements), not O(list). */
import { invalidArgument } from "../../util/index.js";
import type { ClassRegistry } from "./class-registry.js";
import { isFrameObject, layoutElement } from "./layout.js";
import type { Path } from "./pointer.js";
import { reviseShadow } from "./revision.js";
import { ListNode, type Shadow, ValueNode } from "./shadow.js";
import { shadowToValue } from "./shadow-to-value.js";
import { valueToShadow } from "./value-to-shadow.js";

/** Appends values to the array at `keys` of a shadow, in place. Returns the shadow, or the one that replaces it. */
export function appendToShadow(
  shadow: Shadow,
  keys: readonly string[],
  values: readonly unknown[],
  registry: ClassRegistry,
): Shadow {
  if (appendInPlace(shadow, keys, values, registry, undefined)) return shadow;
  // A small array is inline in its frame. The frame is small as well and is compared again.
  return reviseShadow(shadow, appendToValue(shadowToValue(shadow, registry), keys, values), registry);
}

/** Appends values to the array at `keys` of a live state, in place. */
export function appendToValue(state: unknown, keys: readonly string[], values: readonly unknown[]): unknown {
  const array = keys.reduce<unknown>(
    (value, key) =>
      value instanceof Map ? value.get(key) : (value as Record<string, unknown> | null | undefined)?.[key],
    state,
  );
  if (!Array.isArray(array)) {
    const path = keys.map((key) => `/${key}`).join("");
    const found = array === undefined ? "nothing" : "another value";
    throw invalidArgument(`Cannot append at ${JSON.stringify(path)}: expected an array, found ${found}.`);
  }
  for (const value of values) array.push(value);
  return state;
}

/** Adds elements at the end of a list. */
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
  const sizes = values.map(() => 0);
  list.splice(from, from, sizes, [{ from, count: values.length }]);
}

/**
 * Descends to the list at `keys`, appends to it and marks the items that contain it as changed.
 *
 * @returns `false`, with nothing changed, if there is no list of items at `keys`
 */
function appendInPlace(
  shadow: Shadow,
  keys: readonly string[],
  values: readonly unknown[],
  registry: ClassRegistry,
  path: Path | undefined,
): boolean {
  const [key, ...rest] = keys;
  if (key === undefined) {
    if (!(shadow instanceof ListNode) || shadow.kind !== "array") return false;
    appendElements(shadow, values, registry, path);
    return true;
  }
  const at = { parent: path, key };
  if (shadow instanceof ValueNode) {
    if (!appendInPlace(shadow.value, keys, values, registry, path)) return false;
    shadow.piece = undefined;
    return true;
  }
  if (isFrameObject(shadow)) {
    return Object.hasOwn(shadow, key) && appendInPlace(shadow[key] as Shadow, rest, values, registry, at);
  }
  if (!(shadow instanceof ListNode) || shadow.kind === "map" || shadow.kind === "set") return false;
  const index = shadow.keys ? shadow.keys.indexOf(key) : arrayIndex(key);
  const element = shadow.elements[index];
  if (element === undefined || !appendInPlace(element, rest, values, registry, at)) return false;
  shadow.splice(index, index + 1, [0], [{ from: index, count: 1 }]);
  return true;
}

function arrayIndex(key: string): number {
  return /^(0|[1-9]\d*)$/.test(key) ? Number(key) : -1;
}
