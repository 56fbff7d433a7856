/** Changes of the items of a namespace: pure functions over its state. */
import { SavepointError } from "../../../index.js";
import { isExpired, type NamespaceState, type StoredItem } from "./items.js";
import type { Namespace } from "./namespaces.js";

/** The most items of a page. */
const PAGE_SIZE = 256;

/** A change of one item. */
export type ItemChange =
  | { readonly kind: "put"; readonly key: string; readonly item: Omit<StoredItem, "createdAt"> }
  | { readonly kind: "delete"; readonly key: string }
  /** Extends the lifetime, if the item has one. */
  | { readonly kind: "refresh"; readonly key: string };

/** The number of the page that has an item, by its key. */
export type PageIndex = Map<string, number>;

/** A state after changes, and the changes of its index. */
export interface ChangedState {
  readonly state: NamespaceState;
  /** Brings the index of the state before up to date. */
  updateIndex(index: PageIndex): PageIndex;
}

/** The index of a state. @throws `DAMAGED` if two items have the same key */
export function indexOf(state: NamespaceState | undefined): PageIndex {
  const index: PageIndex = new Map();
  let items = 0;
  for (const [number, page] of state?.pages.entries() ?? []) {
    for (const { key } of page) index.set(key, number);
    items += page.length;
  }
  if (index.size === items) return index;
  throw new SavepointError(
    "DAMAGED",
    `The namespace ${JSON.stringify(state?.namespace)} has two items with the same key: another program has saved it. Return to an earlier checkpoint with session.rewind().`,
  );
}

/** The item under a key; also one that has expired. */
export function findItem(state: NamespaceState, index: PageIndex, key: string): StoredItem | undefined {
  const page = index.get(key);
  return page === undefined ? undefined : state.pages[page]?.find((item) => item.key === key);
}

/**
 * The state after some changes, without the items that have expired; `undefined` if nothing changes. Pages without a change are shared with
 * the state before.
 *
 * @param mayExpire whether items may have expired; if not, they are not searched
 */
export function applyChanges(
  namespace: Namespace,
  before: NamespaceState | undefined,
  index: PageIndex,
  changes: readonly ItemChange[],
  { now, mayExpire }: { readonly now: number; readonly mayExpire: boolean },
): ChangedState | undefined {
  const pages = new Pages(before, index);
  if (mayExpire) pages.removeExpired(now);
  for (const change of changes) {
    const { key } = change;
    const item = pages.find(key);
    if (change.kind === "put") {
      pages.set({ ...change.item, createdAt: item?.createdAt ?? change.item.updatedAt });
    } else if (item && change.kind === "delete") {
      pages.delete(key);
    } else if (item?.ttl !== undefined && change.kind === "refresh") {
      pages.set({ ...item, expiresAt: now + item.ttl });
    }
  }
  if (!pages.isChanged) return undefined;
  const [first = now] = changes.flatMap((change) => (change.kind === "put" ? change.item.updatedAt : []));
  const state = { namespace, createdAt: before?.createdAt ?? first, pages: pages.toList() };
  return { state, updateIndex: (known) => pages.updateIndex(known, state) };
}

/** The pages of a state while they are changed. */
class Pages {
  readonly #pages: (readonly StoredItem[])[];
  readonly #index: PageIndex;
  /** Pages that are copies already, and may be changed. */
  readonly #own = new Map<number, StoredItem[]>();
  /** The pages of keys that were added; `undefined` for keys that were deleted. */
  readonly #moved = new Map<string, number | undefined>();

  constructor(state: NamespaceState | undefined, index: PageIndex) {
    this.#pages = [...(state?.pages ?? [])];
    this.#index = index;
  }

  get isChanged(): boolean {
    return this.#own.size > 0;
  }

  find(key: string): StoredItem | undefined {
    const page = this.#pageOf(key);
    return page === undefined ? undefined : this.#pages[page]?.find((item) => item.key === key);
  }

  /** Replaces the item with the same key, or adds one at the end. */
  set(item: StoredItem): void {
    const { key } = item;
    const number = this.#pageOf(key);
    if (number !== undefined) {
      const page = this.#change(number);
      page[page.findIndex((each) => each.key === key)] = item;
      return;
    }
    const last = this.#pages.length - 1;
    const target = last >= 0 && (this.#pages[last]?.length ?? 0) < PAGE_SIZE ? last : last + 1;
    this.#change(target).push(item);
    this.#moved.set(key, target);
  }

  delete(key: string): void {
    const page = this.#change(this.#pageOf(key) as number);
    page.splice(
      page.findIndex((each) => each.key === key),
      1,
    );
    this.#moved.set(key, undefined);
  }

  removeExpired(now: number): void {
    const expired = this.#pages.flatMap((page) => page.filter((item) => isExpired(item, now)));
    for (const { key } of expired) this.delete(key);
  }

  /** The pages that have items. */
  toList(): (readonly StoredItem[])[] {
    return this.#pages.filter((page) => page.length > 0);
  }

  updateIndex(index: PageIndex, state: NamespaceState): PageIndex {
    // Pages that have become empty change the numbers of the others.
    if (state.pages.length !== this.#pages.length) return indexOf(state);
    for (const [key, page] of this.#moved) {
      if (page === undefined) index.delete(key);
      else index.set(key, page);
    }
    return index;
  }

  #pageOf(key: string): number | undefined {
    return this.#moved.has(key) ? this.#moved.get(key) : this.#index.get(key);
  }

  #change(number: number): StoredItem[] {
    let page = this.#own.get(number);
    if (!page) {
      page = [...(this.#pages[number] ?? [])];
      this.#own.set(number, page);
      this.#pages[number] = page;
    }
    return page;
  }
}
