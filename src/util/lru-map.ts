/**
 * A map with a bounded total weight: when it is exceeded, the entries that were used longest ago are removed.
 *
 * `get` and `set` count as use. The newest entry stays even if it alone exceeds the bound.
 */
export class LruMap<Key, Value> {
  readonly #entries = new Map<Key, { readonly value: Value; readonly weight: number }>();
  readonly #maxWeight: number;
  readonly #onEvict: ((key: Key, value: Value) => void) | undefined;
  #weight = 0;

  /**
   * @param maxWeight the bound; the number of entries, unless `set` is called with weights
   * @param onEvict called for each entry that is removed to make room, not for those that the caller deletes or replaces
   */
  constructor(maxWeight: number, onEvict?: (key: Key, value: Value) => void) {
    this.#maxWeight = maxWeight;
    this.#onEvict = onEvict;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** The sum of the weights of all entries. */
  get weight(): number {
    return this.#weight;
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
    for (const [oldest, entry] of this.#entries) {
      if (this.#weight <= this.#maxWeight || oldest === key) return;
      this.delete(oldest);
      this.#onEvict?.(oldest, entry.value);
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

  /** The keys, least recently used first. */
  keys(): IterableIterator<Key> {
    return this.#entries.keys();
  }

  /** The values, least recently used first. */
  *values(): IterableIterator<Value> {
    for (const { value } of this.#entries.values()) yield value;
  }
}
