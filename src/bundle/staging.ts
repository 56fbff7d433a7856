/**
 * The numbers under which an import stores data that is not visible yet. They are recorded in the store, so that an interrupted
 * import can be resumed, or freed by garbage collection.
 */
import { SavepointError } from "../errors.js";
import type { Context } from "../context.js";
import { type ImportRecord, releaseImport } from "../gc/index.js";
import { importKey, NEXT_NUMBER_KEY } from "../records/index.js";
import { retryOnConflict } from "../util/index.js";
import type { BundleHeader } from "./format.js";

/** The staged data of one import. */
export class Staging {
  /** Added to the numbers of the bundle, so that they do not collide with those of the store. */
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

  /** Resumes the interrupted import of a bundle, or allocates numbers for a new one. */
  static async open(context: Context, { id, numbers }: BundleHeader): Promise<Staging> {
    const { store } = context;
    const [lowest, highest] = numbers;
    return retryOnConflict(async () => {
      const [known, counter] = await store.get([importKey(id), NEXT_NUMBER_KEY]);
      if (known && "value" in known) {
        const staging = new Staging(context, id, JSON.parse(known.value) as ImportRecord);
        await staging.#write();
        return staging;
      }
      if (counter && !("value" in counter)) {
        const message = `Nothing can be imported: ${counter.unreadable}. Run sp.repair() first.`;
        throw new SavepointError("DAMAGED", message);
      }
      const next = Number(counter?.value ?? 0);
      // Also above all numbers of the bundle: checkpoints of agents may name numbers from before and after the import.
      const by = next <= lowest ? 0 : Math.max(next, highest + 1) - lowest;
      const record: ImportRecord = { by, at: Date.now(), numbers: [] };
      await store.commit({
        checks: [
          known ? { key: importKey(id), exists: true } : { key: importKey(id), value: undefined },
          { key: NEXT_NUMBER_KEY, value: counter?.value },
        ],
        puts: [
          { key: importKey(id), value: JSON.stringify(record) },
          { key: NEXT_NUMBER_KEY, value: String(highest + by + 1) },
        ],
      });
      return new Staging(context, id, record);
    });
  }

  /** Records a number before anything is stored under it, so that it is freed if the import never completes. */
  async reserveNumber(number: number): Promise<void> {
    if (this.#numbers.has(number)) return;
    this.#numbers.add(number);
    await this.#write();
  }

  /** Ends the import: frees staged data that never became visible. Importing the bundle again allocates other numbers. */
  async release(): Promise<void> {
    await releaseImport(this.#context, importKey(this.#id), this.#numbers);
  }

  async #write(): Promise<void> {
    const record: ImportRecord = { by: this.numberOffset, at: Date.now(), numbers: [...this.#numbers] };
    await this.#context.store.commit({ puts: [{ key: importKey(this.#id), value: JSON.stringify(record) }] });
  }
}
