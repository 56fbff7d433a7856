/** The items of a namespace, as they are stored. */
import type { Item } from "@langchain/langgraph-checkpoint";
import { SavepointError } from "../../../index.js";
import { copyValue } from "./copy-value.js";
import type { Namespace } from "./namespaces.js";

/** Any object whose fields are unknown. */
export type Fields = Readonly<Record<string, unknown>>;

/** An item as it is stored. Times are in milliseconds since 1970. */
export interface StoredItem {
  readonly key: string;
  readonly value: Readonly<Record<string, unknown>>;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** The lifetime after a write or a refresh, and when it ends. */
  readonly ttl?: number;
  readonly expiresAt?: number;
  /** The embeddings of its texts by their paths: 32-bit floats in base64. */
  readonly vectors?: Readonly<Record<string, string>>;
}

/** The state of the session that stores a namespace. */
export interface NamespaceState {
  readonly namespace: readonly string[];
  /** When the namespace got its first item. */
  readonly createdAt: number;
  /**
   * The items in the order of their creation, in pages of at most 256: a put replaces one page, and the other pages are neither copied
   * nor compared.
   */
  readonly pages: readonly (readonly StoredItem[])[];
}

/** The data of a namespace for listings. It is in the metadata of the head, so that listings read no states. */
export interface Outline {
  readonly createdAt: number;
  readonly items: number;
  /** When the first and the last of the items expire; without `last` if some items never expire. */
  readonly expires?: { readonly first: number; readonly last?: number };
}

export function isExpired({ expiresAt }: StoredItem, now: number): boolean {
  return expiresAt !== undefined && expiresAt <= now;
}

/** Whether a refresh is worth a write: a tenth of the lifetime has passed since the last one. */
export function needsRefresh({ expiresAt, ttl }: StoredItem, now: number): boolean {
  return expiresAt !== undefined && ttl !== undefined && now + ttl - expiresAt >= ttl / 10;
}

/** A copy of an item in LangGraph's form. */
export function toItem(namespace: Namespace, item: StoredItem): Item {
  return {
    namespace: [...namespace],
    key: item.key,
    value: copyValue(item.value) as Record<string, unknown>,
    createdAt: new Date(item.createdAt),
    updatedAt: new Date(item.updatedAt),
  };
}

/** The items that have not expired, in the order of their creation. */
export function liveItems({ pages }: NamespaceState, now: number): StoredItem[] {
  return pages.flatMap((page) => page.filter((item) => !isExpired(item, now)));
}

/** The outline of a state, for the metadata of its checkpoint. */
export function outlineOf({ createdAt, pages }: NamespaceState): Outline {
  let [first, last] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  let [items, permanent] = [0, 0];
  for (const page of pages) {
    items += page.length;
    for (const { expiresAt } of page) {
      if (expiresAt === undefined) permanent++;
      else [first, last] = [Math.min(first, expiresAt), Math.max(last, expiresAt)];
    }
  }
  if (permanent === items) return { createdAt, items };
  return { createdAt, items, expires: permanent === 0 ? { first, last } : { first } };
}

/** The outline in the metadata of a checkpoint; `undefined` if another program has saved the checkpoint. */
export function parseOutline(metadata: Fields): Outline | undefined {
  const outline = metadata["memory"];
  if (!isFields(outline) || !isNumber(outline["createdAt"]) || !isNumber(outline["items"])) return undefined;
  const { expires } = outline;
  if (expires !== undefined) {
    if (!isFields(expires) || !isNumber(expires["first"])) return undefined;
    if (expires["last"] !== undefined && !isNumber(expires["last"])) return undefined;
  }
  return outline as unknown as Outline;
}

/** Whether a namespace has an item that has not expired. */
export function isListed({ items, expires }: Outline, now: number): boolean {
  return items > 0 && (expires?.last === undefined || expires.last > now);
}

/** Validates a state: another program may have saved anything. @throws `DAMAGED` */
export function parseState(session: string, namespace: Namespace, state: unknown): NamespaceState {
  if (isFields(state) && isSameNamespace(state["namespace"], namespace) && isNumber(state["createdAt"])) {
    const pages: unknown = state["pages"];
    if (Array.isArray(pages) && pages.every((page) => Array.isArray(page) && page.every(isStoredItem)))
      return state as unknown as NamespaceState;
  }
  throw new SavepointError(
    "DAMAGED",
    `The state of session ${JSON.stringify(session)} is not a namespace of LangGraph's long-term memory: another program has saved it. Return to an earlier checkpoint with session.rewind(), or delete the session.`,
  );
}

function isSameNamespace(stored: unknown, namespace: Namespace): boolean {
  return Array.isArray(stored) && JSON.stringify(stored) === JSON.stringify(namespace);
}

function isStoredItem(item: unknown): boolean {
  if (!isFields(item) || typeof item["key"] !== "string" || !isFields(item["value"])) return false;
  if (!isNumber(item["createdAt"]) || !isNumber(item["updatedAt"])) return false;
  const { ttl, expiresAt, vectors } = item;
  if ((ttl === undefined) !== (expiresAt === undefined)) return false;
  if (ttl !== undefined && !(isNumber(ttl) && isNumber(expiresAt))) return false;
  return (
    vectors === undefined || (isFields(vectors) && Object.values(vectors).every((each) => typeof each === "string"))
  );
}

export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Map);
}

/** Whether a value is a non-negative integer. */
export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** Times must be valid for a `Date`. */
function isNumber(value: unknown): value is number {
  return typeof value === "number" && Math.abs(value) <= 8.64e15;
}
