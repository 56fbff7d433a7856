/** Numbers for sessions and conversations: small, and unique across all processes. */
import { SavepointError } from "../errors.js";
import { scan, type Store } from "../store/index.js";
import { Mutex, retryOnConflict } from "../util/index.js";
import {
  ALL_CONVERSATION_NUMBERS,
  ALL_GARBAGE,
  ALL_IMPORTS,
  ALL_REMOVED_CONVERSATIONS,
  ALL_SESSION_NUMBERS,
  decodeNumbers,
  type ImportRecord,
  MAX_NUMBER,
  NEXT_NUMBER_KEY,
  trailingNumberOf,
} from "../records/index.js";

/** How many numbers are reserved together, so that processes that create many sessions rarely conflict. Gaps are harmless. */
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
    const first = await firstUnusedNumber(this.#store, value);
    if (first > MAX_NUMBER - NUMBER_BLOCK) throw damagedCounter("the counter of numbers is used up");
    await this.#store.commit({
      checks: [{ key: NEXT_NUMBER_KEY, value }],
      puts: [{ key: NEXT_NUMBER_KEY, value: String(first + NUMBER_BLOCK) }],
    });
    return first;
  }
}

/**
 * The first number that nothing uses. Normally that is the value of the counter, which is `undefined` in a new store. One that was lost or lowered must not let a new session
 * overwrite an existing one.
 */
export async function firstUnusedNumber(store: Store, counter: string | undefined): Promise<number> {
  let first = Number(counter ?? 0);
  for (const range of [ALL_SESSION_NUMBERS, ALL_CONVERSATION_NUMBERS, ALL_GARBAGE]) {
    const [last] = await store.list(range, { limit: 1, reverse: true });
    if (last) first = Math.max(first, (decodeNumbers(last.key.slice(1), 1).numbers[0] as number) + 1);
  }
  if (first === Number(counter)) return first;
  // The counter is wrong: numbers that are in use elsewhere have no index by number.
  for await (const { key } of scan(store, ALL_REMOVED_CONVERSATIONS))
    first = Math.max(first, trailingNumberOf(key) + 1);
  for await (const record of scan(store, ALL_IMPORTS)) {
    const { numbers } = "value" in record ? (JSON.parse(record.value) as ImportRecord) : { numbers: [] };
    for (const [number] of numbers) first = Math.max(first, number + 1);
  }
  return first;
}

function damagedCounter(reason: string): SavepointError {
  const advice = "Existing ones still work. Restore the counter from a backup of the store.";
  return new SavepointError("DAMAGED", `No session or conversation can be created: ${reason}. ${advice}`);
}
