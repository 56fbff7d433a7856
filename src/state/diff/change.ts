/**
 * Changes between two states, and their application.
 *
 * Paths are JSON pointers as in RFC 6902: changes are applied in order, and an index refers to the array at the time when its
 * change is applied. A Map whose keys are strings is treated like an object.
 */
import { SavepointError } from "../../errors.js";
import { parsePointer, setKey } from "../tree/index.js";

/** One difference between two states. `before` is the old value, `value` the new one. */
export type Change =
  | { readonly op: "add"; readonly path: string; readonly value: unknown }
  | { readonly op: "remove"; readonly path: string; readonly before: unknown }
  | { readonly op: "replace"; readonly path: string; readonly before: unknown; readonly value: unknown };

/**
 * Applies changes to a state in order and returns the new state. The input is not modified: changed objects are copied once,
 * all others are shared. As in RFC 6902, `add` with the index `-` appends to an array. Throws `INVALID_ARGUMENT` if a change
 * does not fit the state.
 */
export function applyChanges(state: unknown, changes: readonly Change[]): unknown {
  // Containers that are already copied. Later changes may modify them.
  const owned = new Set<unknown>();
  return changes.reduce((current, change) => apply(current, change, parsePointer(change.path), 0, owned), state);
}

function apply(value: unknown, change: Change, keys: readonly string[], depth: number, owned: Set<unknown>): unknown {
  const key = keys[depth];
  if (key === undefined) {
    if (change.op === "remove") throw misfit(change, "the root cannot be removed");
    return change.value;
  }
  const container = owned.has(value) ? value : copyOf(value);
  if (container === undefined) throw misfit(change, "the path leads through a value without members");
  owned.add(container);
  const member = memberOf(container, key, change);
  if (depth < keys.length - 1) member.set(apply(member.get(), change, keys, depth + 1, owned));
  else if (change.op === "add") member.add(change.value);
  else if (change.op === "remove") member.remove();
  else member.set(change.value);
  return container;
}

function copyOf(value: unknown): unknown {
  if (Array.isArray(value)) return [...(value as unknown[])];
  if (value instanceof Map) return new Map(value);
  if (typeof value !== "object" || value === null) return undefined;
  const prototype = Object.getPrototypeOf(value) as object | null;
  if (prototype === null) return Object.assign(Object.create(null) as object, value);
  return prototype === Object.prototype ? { ...value } : undefined;
}

/** One member of a container. All operations but `add` require that it exists. */
interface Member {
  get(): unknown;
  set(value: unknown): void;
  add(value: unknown): void;
  remove(): void;
}

function memberOf(container: unknown, key: string, change: Change): Member {
  const check = (exists: boolean): void => {
    if (!exists) throw misfit(change, `${JSON.stringify(key)} does not exist`);
  };
  if (Array.isArray(container)) {
    const array = container as unknown[];
    const appends = key === "-" && change.op === "add";
    const index = appends ? array.length : /^(?:0|[1-9]\d*)$/.test(key) ? Number(key) : Number.NaN;
    return {
      get: () => (check(index < array.length), array[index]),
      set: (value) => (check(index < array.length), (array[index] = value)),
      add: (value) => (check(index <= array.length), array.splice(index, 0, value)),
      remove: () => (check(index < array.length), array.splice(index, 1)),
    };
  }
  if (container instanceof Map) {
    const map = container as Map<unknown, unknown>;
    return {
      get: () => (check(map.has(key)), map.get(key)),
      set: (value) => (check(map.has(key)), map.set(key, value)),
      add: (value) => map.set(key, value),
      remove: () => check(map.delete(key)),
    };
  }
  const object = container as Record<string, unknown>;
  return {
    get: () => (check(Object.hasOwn(object, key)), object[key]),
    set: (value) => (check(Object.hasOwn(object, key)), setKey(object, key, value)),
    add: (value) => setKey(object, key, value),
    remove: () => check(Object.hasOwn(object, key) && delete object[key]),
  };
}

function misfit(change: Change, reason: string): SavepointError {
  return new SavepointError(
    "INVALID_ARGUMENT",
    `The change "${change.op}" at ${JSON.stringify(change.path)} does not fit the state: ${reason}. Changes can be applied only to the state that they were computed from.`,
    { details: { path: change.path } },
  );
}
