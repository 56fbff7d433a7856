/**
 * What an import has stored and nobody sees yet. A record says which numbers that has, so that it can be gone on with, or
 * freed if nobody does.
 */
import { isSavepointError, SavepointError } from "../errors.js";
import type { Context } from "../context.js";
import { type ImportRecord, releaseImport } from "../gc/index.js";
import { importKey, NEXT_NUMBER_KEY } from "../records/index.js";
import type { BundleHeader } from "./format.js";

export class Staging {
  /** By how much numbers move. */
  readonly numberOffset: number;
  readonly #context: Context;
  readonly #id: string;
  readonly #numbers: Set<number>;

  private constructor(context: Context, id: string, { by, numbers }: ImportRecord) {
    this.#context = context;
    this.#id = id;
    this.numberOffset = by;
    this.#numbers = new Set(numbers);
  }

  /** Goes on with an import that was interrupted, or takes numbers for a new one. They are given to nobody else. */
  static async open(context: Context, { id, numbers }: BundleHeader): Promise<Staging> {
    const { store } = context;
    const [lowest, highest] = numbers;
    for (;;) {
      const [begun, counter] = await store.get([importKey(id), NEXT_NUMBER_KEY]);
      if (begun && "value" in begun) {
        const staging = new Staging(context, id, JSON.parse(begun.value) as ImportRecord);
        await staging.#write();
        return staging;
      }
      if (counter && !("value" in counter)) {
        throw new SavepointError("DAMAGED", `Nothing can be imported: ${counter.unreadable}. Repair the store first.`);
      }
      const next = Number(counter?.value ?? 0);
      // Higher than all that came, too: checkpoints of agents may name either.
      const by = next <= lowest ? 0 : Math.max(next, highest + 1) - lowest;
      const record: ImportRecord = { by, at: Date.now(), numbers: [] };
      try {
        await store.commit({
          checks: [
            begun ? { key: importKey(id), exists: true } : { key: importKey(id), value: undefined },
            { key: NEXT_NUMBER_KEY, value: counter?.value },
          ],
          puts: [
            { key: importKey(id), value: JSON.stringify(record) },
            { key: NEXT_NUMBER_KEY, value: String(highest + by + 1) },
          ],
        });
        return new Staging(context, id, record);
      } catch (error) {
        // Somebody else took numbers: look again.
        if (!isSavepointError(error, "CONFLICT")) throw error;
      }
    }
  }

  /** Something is about to be stored under this number. */
  async reserveNumber(number: number): Promise<void> {
    if (this.#numbers.has(number)) return;
    this.#numbers.add(number);
    await this.#write();
  }

  async #write(): Promise<void> {
    const record: ImportRecord = { by: this.numberOffset, at: Date.now(), numbers: [...this.#numbers] };
    await this.#context.store.commit({ puts: [{ key: importKey(this.#id), value: JSON.stringify(record) }] });
  }

  /** It is over, well or not: what is stored and nobody uses is freed, and a further try has other numbers. */
  async release(): Promise<void> {
    await releaseImport(this.#context, importKey(this.#id), this.#numbers);
  }
}
