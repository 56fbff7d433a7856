/**
 * A map with a bounded total weight: when it is exceeded, the entries that were used longest ago are removed.
 *
 * `get` and `set` count as use. The newest entry stays even if it alone exceeds the bound.
 */
export class LruMap<Key, Value> {
  readonly #entries = new Map<Key, { readonly value: Value; readonly weight: number }>();
  readonly #maxWeight: number;
  #weight = 0;

  /** @param maxWeight the bound; the number of entries, unless `set` is called with weights */
  constructor(maxWeight: number) {
    this.#maxWeight = maxWeight;
  }

  has(key: Key): boolean {
    return this.#entries.has(key);
  }

  /** The value of a key, which becomes the most recently used one; `undefined` if there is none. */
  get(key: Key): Value | undefined {
    const entry = this.#entries.get(key);
    if (!entry) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.value;
  }

  /** The value of a key without counting as use. */
  peek(key: Key): Value | undefined {
    return this.#entries.get(key)?.value;
  }

  set(key: Key, value: Value, weight = 1): void {
    this.delete(key);
    this.#entries.set(key, { value, weight });
    this.#weight += weight;
    if (this.#weight <= this.#maxWeight) return;
    for (const oldest of this.#entries.keys()) {
      if (this.#weight <= this.#maxWeight || oldest === key) return;
      this.delete(oldest);
    }
  }

  delete(key: Key): boolean {
    const entry = this.#entries.get(key);
    if (!entry) return false;
    this.#weight -= entry.weight;
    return this.#entries.delete(key);
  }

  clear(): void {
    this.#entries.clear();
    this.#weight = 0;
  }
}
