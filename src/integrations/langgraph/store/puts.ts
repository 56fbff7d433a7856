/** Puts: their validation, and the vectors of their texts. */
import type { PutOperation } from "@langchain/langgraph-checkpoint";
import { invalidArgument } from "../errors.js";
import { copyValue } from "./copy-value.js";
import type { ItemChange } from "./changes.js";
import type { Fields } from "./items.js";
import { isValidNamespace, type Namespace, validateNamespace } from "./namespaces.js";
import { parseTtl, type PutItemOptions } from "./options.js";
import { type Embedder, type ToEmbed, validateFields } from "./vectors.js";

/** A put or, with the value `null`, a delete. */
export type PutRequest = PutOperation & PutItemOptions;

/** A valid put or delete. */
export interface ParsedPut {
  readonly namespace: Namespace;
  readonly change: ItemChange;
  /** What is embedded; `undefined` for a delete and for an item without an index. */
  readonly toEmbed?: ToEmbed;
}

/** Validates a put, and copies its value: the caller may change it before it is saved. Empty for a delete without effect. */
export function parsePut(request: PutRequest, updatedAt: number, defaultTtl: number | undefined): ParsedPut[] {
  const { namespace, key, value, index } = request;
  if (typeof key !== "string") throw invalidArgument(`The key of an item must be a string, got ${typeof key}.`);
  if (value === null) return isValidNamespace(namespace) ? [{ namespace, change: { kind: "delete", key } }] : [];
  validateNamespace(namespace);
  if (!isPlainObject(value)) {
    throw invalidArgument(
      `The value of item ${JSON.stringify(key)} must be a plain object, got ${describe(value)}. Nothing was saved.`,
    );
  }
  if (index !== undefined && index !== null && index !== false) validateFields(index, "index");
  const ttl = parseTtl(request.ttl) ?? defaultTtl;
  const copy = copyValue(value) as Fields;
  const item = { key, value: copy, updatedAt, ...(ttl !== undefined && { ttl, expiresAt: updatedAt + ttl }) };
  const toEmbed = { value: copy, fields: index || undefined };
  return [{ namespace: [...namespace], change: { kind: "put", key, item }, ...(index !== false && { toEmbed }) }];
}

/** The changes of puts, in their order, with the vectors of their texts. */
export async function embedPuts(puts: readonly ParsedPut[], embedder: Embedder | undefined): Promise<ItemChange[]> {
  const changes = puts.map(({ change }) => change);
  const indexed = puts.flatMap(({ toEmbed }, index) => (toEmbed ? [{ toEmbed, index }] : []));
  if (!embedder || indexed.length === 0) return changes;
  const embedded = await embedder.embedItems(indexed.map(({ toEmbed }) => toEmbed));
  for (const [at, { index }] of indexed.entries()) {
    const [change, vectors] = [changes[index] as ItemChange, embedded[at]];
    if (change.kind === "put" && vectors) changes[index] = { ...change, item: { ...change.item, vectors } };
  }
  return changes;
}

function isPlainObject(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function describe(value: unknown): string {
  if (typeof value !== "object" || value === null) return String(typeof value);
  return `an instance of ${(value.constructor as { name?: string } | undefined)?.name ?? "a class"}`;
}
