/**
 * A cheap key that finds an element of a list after it has moved.
 *
 * Equal elements have equal signatures, whether they are live values or shadows. Unequal ones usually have different
 * signatures, so a match must still be compared in full.
 */
import { ListNode, type Shadow, tagOf, TextNode, ValueNode } from "./shadow.js";

const MAX_LEAVES = 16;

/** The longest of the first few strings of a value, such as an id or a content; else its first primitives. */
export function signatureOf(value: unknown): unknown {
  const leaves: (string | number | boolean | null)[] = [];
  gather(value, leaves, 0);
  let longest: string | undefined;
  for (const leaf of leaves) {
    if (typeof leaf === "string" && (longest === undefined || leaf.length > longest.length)) longest = leaf;
  }
  return longest !== undefined && longest.length > 4 ? longest : leaves.join();
}

function gather(value: unknown, leaves: (string | number | boolean | null)[], depth: number): void {
  if (leaves.length >= MAX_LEAVES || depth > 6) return;
  if (typeof value === "string" || typeof value === "boolean" || value === null) leaves.push(value);
  else if (typeof value === "number") {
    if (Number.isFinite(value) && !Object.is(value, -0)) leaves.push(value);
  } else if (typeof value !== "object") return;
  else if (value instanceof ValueNode) gather(value.value, leaves, depth);
  else if (value instanceof TextNode) gather(value.dense ?? value.text, leaves, depth);
  else if (value instanceof ListNode) {
    if (value.kind === "array" || value.kind === "object") gatherAll(value.elements, leaves, depth);
  } else if (Array.isArray(value)) gatherAll(value, leaves, depth);
  else if (isRecord(value) && !tagOf(value)) gatherAll(Object.values(value), leaves, depth);
}

function gatherAll(parts: readonly unknown[], leaves: (string | number | boolean | null)[], depth: number): void {
  for (let index = 0; index < parts.length && leaves.length < MAX_LEAVES; index++) {
    gather(parts[index], leaves, depth + 1);
  }
}

function isRecord(value: object): value is Record<string, Shadow> {
  return Object.getPrototypeOf(value) === Object.prototype;
}
