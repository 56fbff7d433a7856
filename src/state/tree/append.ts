/** Adding to a list inside a shadow, for the price of what is added. */
import { SavepointError } from "../../errors.js";
import type { Path } from "./pointer.js";
import type { ClassRegistry } from "./class-registry.js";
import { appendElements, reviseShadow } from "./revision.js";
import { isFrameObject } from "./layout.js";
import { ListNode, type Shadow, ValueNode } from "./shadow.js";
import { shadowToValue } from "./shadow-to-value.js";

/** The shadow with `values` added to the array at `keys`; it is changed in place. */
export function appendToShadow(
  shadow: Shadow,
  keys: readonly string[],
  values: readonly unknown[],
  registry: ClassRegistry,
): Shadow {
  if (appendInPlace(shadow, keys, values, registry, undefined)) return shadow;
  // A small array stands inline in its frame: the frame is small as well, and simply compared anew.
  return reviseShadow(shadow, appendToValue(shadowToValue(shadow, registry), keys, values), registry);
}

/** The state with `values` added to the array at `keys`; it is changed in place. */
export function appendToValue(state: unknown, keys: readonly string[], values: readonly unknown[]): unknown {
  const array = keys.reduce<unknown>(
    (value, key) =>
      value instanceof Map ? value.get(key) : (value as Record<string, unknown> | null | undefined)?.[key],
    state,
  );
  if (!Array.isArray(array)) {
    throw new SavepointError(
      "INVALID_ARGUMENT",
      `Cannot append at ${JSON.stringify(keys.map((key) => `/${key}`).join(""))}: there is ${array === undefined ? "nothing" : "no array"} there.`,
    );
  }
  for (const value of values) array.push(value);
  return state;
}

/** Walks down to the list and back, marking the items that contain it as changed; `false` where it is no stored list. */
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
