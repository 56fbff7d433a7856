/** Numbers for sessions and conversations: small, and never given twice, by any process. */
import { isSavepointError, SavepointError } from "../errors.js";
import type { Store } from "../store/index.js";
import { NEXT_NUMBER_KEY } from "../records/index.js";

/** Taken at once, so that processes that open many sessions do not meet over every single one. Gaps do no harm. */
const BLOCK = 16;

export class NumberSource {
  readonly #store: Store;
  #next = 0;
  #end = 0;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(store: Store) {
    this.#store = store;
  }

  next(): Promise<number> {
    const mine = this.#turn.then(async () => {
      if (this.#next === this.#end) await this.#takeBlock();
      return this.#next++;
    });
    this.#turn = mine.catch(() => {});
    return mine;
  }

  async #takeBlock(): Promise<void> {
    for (;;) {
      const [record] = await this.#store.get([NEXT_NUMBER_KEY]);
      if (record && !("value" in record)) throw damagedCounter(record.unreadable);
      const value = record?.value;
      const first = Number(value ?? 0);
      const put = { key: NEXT_NUMBER_KEY, value: String(first + BLOCK) };
      try {
        await this.#store.commit({ checks: [{ key: NEXT_NUMBER_KEY, value }], puts: [put] });
        this.#next = first;
        this.#end = first + BLOCK;
        return;
      } catch (error) {
        // Another process took this block: look again.
        if (!isSavepointError(error, "CONFLICT")) throw error;
      }
    }
  }
}

function damagedCounter(reason: string): SavepointError {
  const advice = "Those that are there go on; new ones need a backup of the store.";
  return new SavepointError("DAMAGED", `No session or conversation can be begun: ${reason}. ${advice}`);
}
