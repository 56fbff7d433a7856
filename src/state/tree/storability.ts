/**
 * Which parts of a state cannot be stored, and the error for them: `INVALID_STATE` with the path in `details.path`.
 *
 * A copy of an array, an object or a built-in object has only its elements, keys or content. Anything else that the
 * original has, such as symbol keys or named properties of an array, is rejected instead of being lost.
 */
import { SavepointError } from "../../errors.js";
import { withUserStack } from "../../util/index.js";
import { MAX_DEPTH } from "./limits.js";
import { type Path, pathToPointer } from "./pointer.js";

/** Rejects arrays with holes, named properties or symbol keys. */
export function validateArray(array: readonly unknown[], path: Path | undefined): void {
  const keys = Object.keys(array);
  const isComplete = keys.length === array.length && (keys.length === 0 || keys.at(-1) === String(array.length - 1));
  if (isComplete && !hasSymbols(array)) return;
  for (let index = 0; index < array.length; index++) {
    if (!(index in array)) {
      throw invalidState({ parent: path, key: index }, "a hole in a sparse array", "Fill it, with null for example.");
    }
  }
  throw invalidState(
    path,
    "an array with named properties",
    "Copy it with [...array], or keep the properties in an object.",
  );
}

/** Rejects objects with symbol keys. */
export function validateKeys(value: object, path: Path | undefined): void {
  if (hasSymbols(value)) throw invalidState(path, "an object with symbol keys", "Use strings as keys.");
}

/** Rejects named properties on a Date, URL, Map or Set. Bytes are not checked: all their indexes would be listed. */
export function validateNoProperties(value: object, path: Path | undefined): void {
  if (Object.keys(value).length === 0) return;
  throw invalidState(
    path,
    `${describeInstance(value)} with named properties`,
    "Keep the properties in an object beside it.",
  );
}

/** The error for a value that cannot be stored. */
export function invalidState(
  path: Path | undefined,
  what: string,
  advice: string,
  options?: ErrorOptions,
): SavepointError<"INVALID_STATE"> {
  const pointer = pathToPointer(path);
  const message = `The state cannot be stored: ${pointer === "" ? "it" : pointer} is ${what}. ${advice} Nothing was saved.`;
  return withUserStack(() => new SavepointError("INVALID_STATE", message, { ...options, details: { path: pointer } }));
}

/** The error for nesting beyond {@link MAX_DEPTH}. Its most frequent cause is a cycle, which the message then names. */
export function tooDeep(value: object, path: Path | undefined): SavepointError {
  const pointer = pathToPointer(path);
  const where = pointer.length > 120 ? `${pointer.slice(0, 120)}…` : pointer;
  const reason = containsItself(value)
    ? "because an object contains itself (a cycle)"
    : "too deep to be read back safely";
  return new SavepointError(
    "INVALID_STATE",
    `The state cannot be stored: it is nested more than ${MAX_DEPTH} deep at ${where}, ${reason}. Store ids instead of nested objects. Nothing was saved.`,
    { details: { path: pointer } },
  );
}

/** The class of an object, for messages. */
export function describeInstance(value: object): string {
  const name = (Object.getPrototypeOf(value) as object).constructor?.name;
  return name ? `an instance of ${name}` : "an instance of an unnamed class";
}

function hasSymbols(value: object): boolean {
  return Object.getOwnPropertySymbols(value).length > 0;
}

function containsItself(target: object): boolean {
  const visited = new Set<object>();
  const queue: object[] = [target];
  for (let next = queue.pop(); next; next = queue.pop()) {
    const parts = next instanceof Map ? [...next].flat() : next instanceof Set ? [...next] : Object.values(next);
    for (const part of parts) {
      if (part === target) return true;
      if (typeof part === "object" && part !== null && !visited.has(part as object)) {
        visited.add(part as object);
        queue.push(part as object);
      }
    }
  }
  return false;
}
