/** Numbers for sessions and conversations: small, and unique across all processes. */
import { SavepointError } from "../errors.js";
import type { Store } from "../store/index.js";
import { Mutex, retryOnConflict } from "../util/index.js";
import {
  ALL_CONVERSATION_NUMBERS,
  ALL_GARBAGE,
  ALL_SESSION_NUMBERS,
  decodeNumbers,
  MAX_NUMBER,
  NEXT_NUMBER_KEY,
} from "../records/index.js";

/** How many numbers are reserved at once, so that processes that create many sessions rarely conflict. Gaps are harmless. */
export const NUMBER_BLOCK = 16;

/** Hands out numbers, and reserves a block of them in the store when it has none left. */
export class NumberSource {
  readonly #store: Store;
  readonly #mutex = new Mutex();
  #next = 0;
  #end = 0;

  constructor(store: Store) {
    this.#store = store;
  }

  next(): Promise<number> {
    return this.#mutex.run(async () => {
      if (this.#next === this.#end) {
        this.#next = await retryOnConflict(() => this.#reserveBlock());
        this.#end = this.#next + NUMBER_BLOCK;
      }
      return this.#next++;
    });
  }

  async #reserveBlock(): Promise<number> {
    const [record] = await this.#store.get([NEXT_NUMBER_KEY]);
    if (record && !("value" in record)) throw damagedCounter(record.unreadable);
    const value = record?.value;
    const first = Math.max(Number(value ?? 0), await this.#firstUnused());
    if (first > MAX_NUMBER - NUMBER_BLOCK) throw damagedCounter("the counter of numbers is used up");
    await this.#store.commit({
      checks: [{ key: NEXT_NUMBER_KEY, value }],
      puts: [{ key: NEXT_NUMBER_KEY, value: String(first + NUMBER_BLOCK) }],
    });
    return first;
  }

  /** The number after all that are in use. A lost or forged counter must not let a new session overwrite an existing one. */
  async #firstUnused(): Promise<number> {
    const lasts = [ALL_SESSION_NUMBERS, ALL_CONVERSATION_NUMBERS, ALL_GARBAGE].map(async (range) => {
      const [last] = await this.#store.list(range, { limit: 1, reverse: true });
      return last ? (decodeNumbers(last.key.slice(1), 1).numbers[0] as number) + 1 : 0;
    });
    return Math.max(...(await Promise.all(lasts)));
  }
}

function damagedCounter(reason: string): SavepointError {
  const advice = "Existing ones still work. Restore the counter from a backup of the store.";
  return new SavepointError("DAMAGED", `No session or conversation can be created: ${reason}. ${advice}`);
}
