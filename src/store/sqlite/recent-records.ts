/** A map that forgets its oldest entries when there are too many of them, or when their total length is too large. */
export class Recent<T> {
  readonly #entries = new Map<string, T>();
  readonly #maxEntries: number;
  readonly #maxLength: number;
  readonly #lengthOf: (value: T) => number;
  #length = 0;

  /** @param lengthOf the length of a value; `maxLength` limits the total length of all keys and values */
  constructor(maxEntries: number, maxLength = Infinity, lengthOf: (value: T) => number = () => 0) {
    this.#maxEntries = maxEntries;
    this.#maxLength = maxLength;
    this.#lengthOf = lengthOf;
  }

  get(key: string): T | undefined {
    return this.#entries.get(key);
  }

  has(key: string): boolean {
    return this.#entries.has(key);
  }

  set(key: string, value: T): void {
    this.delete(key);
    this.#entries.set(key, value);
    this.#length += key.length + this.#lengthOf(value);
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= this.#maxEntries && this.#length <= this.#maxLength) return;
      this.delete(oldest);
    }
  }

  delete(key: string): void {
    const value = this.#entries.get(key);
    if (value === undefined) return;
    this.#entries.delete(key);
    this.#length -= key.length + this.#lengthOf(value);
  }

  clear(): void {
    this.#entries.clear();
    this.#length = 0;
  }
}
