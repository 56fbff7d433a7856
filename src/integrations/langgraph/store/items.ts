/** The state of a namespace, and the changes of its items. */
import type { Item } from "@langchain/langgraph-checkpoint";
import { SavepointError } from "../../../index.js";
import { copyValue } from "./copy-value.js";
import type { Namespace } from "./namespaces.js";

/** Any object whose fields are unknown. */
export type Fields = Readonly<Record<string, unknown>>;

/** An item as it is stored. Times are in milliseconds since 1970. */
export interface StoredItem {
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
  /** By key, in the order of their creation. */
  readonly items: Readonly<Record<string, StoredItem>>;
}

/** What listings need to know of a namespace. It is in the metadata of the head, so that no state has to be read. */
export interface Outline {
  readonly createdAt: number;
  readonly items: number;
  /** When the first and the last of the items expire; without `last` if some items never expire. */
  readonly expires?: { readonly first: number; readonly last?: number };
}

/** A change of one item. */
export type ItemChange =
  | { readonly kind: "put"; readonly key: string; readonly item: Omit<StoredItem, "createdAt"> }
  | { readonly kind: "delete"; readonly key: string }
  /** Extends the lifetime, if the item has one. */
  | { readonly kind: "refresh"; readonly key: string };

/** The state after some changes, without the items that have expired; the same object if nothing changes. */
export function applyChanges(
  namespace: Namespace,
  before: NamespaceState | undefined,
  changes: readonly ItemChange[],
  now: number,
): NamespaceState | undefined {
  const items: Record<string, StoredItem> = { ...before?.items };
  let isChanged = false;
  for (const key of Object.keys(items)) {
    if (!isExpired(items[key] as StoredItem, now)) continue;
    delete items[key];
    isChanged = true;
  }
  for (const change of changes) isChanged = applyChange(items, change, now) || isChanged;
  if (!isChanged) return before;
  const [first = now] = changes.flatMap((change) => (change.kind === "put" ? change.item.updatedAt : []));
  return { namespace, createdAt: before?.createdAt ?? first, items };
}

/** Applies one change. Returns whether it had an effect. */
function applyChange(items: Record<string, StoredItem>, change: ItemChange, now: number): boolean {
  const { key } = change;
  const before = Object.hasOwn(items, key) ? items[key] : undefined;
  if (change.kind === "delete") return before !== undefined && delete items[key];
  if (change.kind === "put") {
    setItem(items, key, { ...change.item, createdAt: before?.createdAt ?? change.item.updatedAt });
    return true;
  }
  if (before?.ttl === undefined) return false;
  setItem(items, key, { ...before, expiresAt: now + before.ttl });
  return true;
}

/** Sets an own property, even if its name is `__proto__`. */
function setItem(items: Record<string, StoredItem>, key: string, item: StoredItem): void {
  if (key !== "__proto__") items[key] = item;
  else Object.defineProperty(items, key, { value: item, enumerable: true, configurable: true, writable: true });
}

export function isExpired({ expiresAt }: StoredItem, now: number): boolean {
  return expiresAt !== undefined && expiresAt <= now;
}

/** Whether a refresh is worth a write: a tenth of the lifetime has passed since the last one. */
export function needsRefresh({ expiresAt, ttl }: StoredItem, now: number): boolean {
  return expiresAt !== undefined && ttl !== undefined && now + ttl - expiresAt >= ttl / 10;
}

/** A copy of an item in LangGraph's form. */
export function toItem(namespace: Namespace, key: string, item: StoredItem): Item {
  return {
    namespace: [...namespace],
    key,
    value: copyValue(item.value) as Record<string, unknown>,
    createdAt: new Date(item.createdAt),
    updatedAt: new Date(item.updatedAt),
  };
}

/** The items that have not expired, in the order of their creation. */
export function liveItems(state: NamespaceState, now: number): [key: string, item: StoredItem][] {
  const live = Object.entries(state.items).filter(([, item]) => !isExpired(item, now));
  // An object lists keys that are numbers first.
  return live.sort(([, a], [, b]) => a.createdAt - b.createdAt);
}

/** The outline of a state, for the metadata of its checkpoint. */
export function outlineOf({ createdAt, items }: NamespaceState): Outline {
  let [first, last] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  let [count, permanent] = [0, 0];
  for (const { expiresAt } of Object.values(items)) {
    count++;
    if (expiresAt === undefined) permanent++;
    else [first, last] = [Math.min(first, expiresAt), Math.max(last, expiresAt)];
  }
  if (permanent === count) return { createdAt, items: count };
  return { createdAt, items: count, expires: permanent === 0 ? { first, last } : { first } };
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
    const { items } = state;
    if (isFields(items) && Object.values(items).every(isStoredItem)) return state as unknown as NamespaceState;
  }
  throw new SavepointError(
    "DAMAGED",
    `The state of session ${JSON.stringify(session)} is no memory of LangGraph: another program has saved it. Go back with session.rewind(), or delete the session.`,
  );
}

function isSameNamespace(stored: unknown, namespace: Namespace): boolean {
  return Array.isArray(stored) && JSON.stringify(stored) === JSON.stringify(namespace);
}

function isStoredItem(item: unknown): boolean {
  if (!isFields(item) || !isFields(item["value"]) || !isNumber(item["createdAt"]) || !isNumber(item["updatedAt"]))
    return false;
  const { ttl, expiresAt, vectors } = item;
  if ((ttl === undefined) !== (expiresAt === undefined)) return false;
  if (ttl !== undefined && !(isNumber(ttl) && isNumber(expiresAt))) return false;
  return (
    vectors === undefined || (isFields(vectors) && Object.values(vectors).every((each) => typeof each === "string"))
  );
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Map);
}

/** Times must be valid for a `Date`. */
function isNumber(value: unknown): value is number {
  return typeof value === "number" && Math.abs(value) <= 8.64e15;
}
