/** Values that are expensive to read: shared by all clients, and read again at a rate that depends on their cost. */

/** The least time between two reads, as a multiple of the duration of the first one. */
const REST = 20;

export class Cached<Value> {
  readonly #read: () => Promise<Value>;
  readonly #minAge: number;
  #value: { readonly value: Value; readonly until: number } | undefined;
  #reading: Promise<Value> | undefined;

  /** @param minAge how long a value is kept at least, in milliseconds */
  constructor(minAge: number, read: () => Promise<Value>) {
    this.#minAge = minAge;
    this.#read = read;
  }

  /** The value. The longer the last read took, the older it may be. */
  async get(): Promise<Value> {
    if (this.#value && performance.now() < this.#value.until) return this.#value.value;
    this.#reading ??= this.#refresh().finally(() => (this.#reading = undefined));
    return this.#reading;
  }

  /** The value, or the one before if reading it takes longer than this many milliseconds; `undefined` if there is none. */
  async within(wait: number): Promise<Value | undefined> {
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<undefined>((resolve) => (timer = setTimeout(() => resolve(undefined), wait)));
    const value = this.get();
    value.catch(() => {});
    const first = await Promise.race([value, timeout]).finally(() => clearTimeout(timer));
    return first ?? this.#value?.value;
  }

  /** Forgets the value, because it was changed here. */
  clear(): void {
    this.#value = undefined;
  }

  async #refresh(): Promise<Value> {
    const startedAt = performance.now();
    const value = await this.#read();
    const endedAt = performance.now();
    this.#value = { value, until: endedAt + Math.max(this.#minAge, REST * (endedAt - startedAt)) };
    return value;
  }
}
