/**
 * The numbers under which an import stores data that is not visible yet. They are recorded in the store, so that an interrupted
 * import can be resumed, or freed by garbage collection.
 */
import { SavepointError } from "../errors.js";
import type { Context } from "../context.js";
import { releaseImport } from "../gc/index.js";
import { importKey, type ImportRecord, MAX_NUMBER, NEXT_NUMBER_KEY } from "../records/index.js";
import { firstUnusedNumber } from "../sessions/index.js";
import { retryOnConflict } from "../util/index.js";
import { type BundleHeader, hashOf } from "./format.js";

/** The staged data of one import. */
export class Staging {
  /** Added to the numbers of the bundle, so that they do not collide with those of the store. */
  readonly numberOffset: number;
  readonly #context: Context;
  readonly #key: string;
  /** The hashes of the sections for which numbers are reserved, by number. */
  readonly #numbers: Map<number, string>;

  private constructor(context: Context, key: string, { by, numbers }: ImportRecord) {
    this.#context = context;
    this.#key = key;
    this.numberOffset = by;
    this.#numbers = new Map(numbers);
  }

  /** Resumes the interrupted import of a bundle, or allocates numbers for a new one. */
  static async open(context: Context, header: BundleHeader): Promise<Staging> {
    const { store } = context;
    const [lowest, highest] = header.numbers;
    // Two bundles can have the same id. So the key is the hash of the whole header, which includes the range of numbers.
    const key = importKey(hashOf(header));
    return retryOnConflict(async () => {
      const [known, counter] = await store.get([key, NEXT_NUMBER_KEY]);
      if (known && "value" in known) {
        const staging = new Staging(context, key, JSON.parse(known.value) as ImportRecord);
        await staging.#write();
        return staging;
      }
      if (counter && !("value" in counter)) {
        const message = `Nothing can be imported: ${counter.unreadable}. Run sp.repair() first.`;
        throw new SavepointError("DAMAGED", message);
      }
      const next = await firstUnusedNumber(store, counter?.value);
      // Also above all numbers of the bundle: checkpoints of agents may name numbers from before and after the import.
      const by = next <= lowest ? 0 : Math.max(next, highest + 1) - lowest;
      if (highest + by >= MAX_NUMBER)
        throw new SavepointError(
          "DAMAGED",
          "Nothing can be imported: the store has no numbers left for new sessions and conversations. Import into a new store.",
        );
      const record: ImportRecord = { by, at: Date.now(), numbers: [] };
      await store.commit({
        checks: [
          known ? { key, exists: true } : { key, value: undefined },
          { key: NEXT_NUMBER_KEY, value: counter?.value },
        ],
        puts: [
          { key, value: JSON.stringify(record) },
          { key: NEXT_NUMBER_KEY, value: String(highest + by + 1) },
        ],
      });
      return new Staging(context, key, record);
    });
  }

  /**
   * Records a number before anything is stored under it, so that it is freed if the import never completes.
   *
   * @param section the hash of the section that uses the number: another section must not write to it
   * @throws `CONFLICT` if an interrupted import of another bundle has used the number
   */
  async reserveNumber(number: number, section: string): Promise<void> {
    const reservedFor = this.#numbers.get(number);
    if (reservedFor === section) return;
    if (reservedFor !== undefined) throw stagedConflict();
    this.#numbers.set(number, section);
    await this.#write();
  }

  /** Ends the import: frees staged data that never became visible. Importing the bundle again allocates other numbers. */
  async release(): Promise<void> {
    await releaseImport(this.#context, this.#key, this.#numbers.keys());
  }

  async #write(): Promise<void> {
    const record: ImportRecord = { by: this.numberOffset, at: Date.now(), numbers: [...this.#numbers] };
    await this.#context.store.commit({ puts: [{ key: this.#key, value: JSON.stringify(record) }] });
  }
}

/** An earlier attempt has stored something else under the same numbers: it read another bundle with the same header. */
export function stagedConflict(): SavepointError<"CONFLICT"> {
  return new SavepointError(
    "CONFLICT",
    "An interrupted import of another bundle with the same id had left data in the store. That data is discarded. Run the import again.",
  );
}
