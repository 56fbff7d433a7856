/**
 * What an import has stored and nobody sees yet. A record says which numbers that has, so that it can be gone on with, or
 * freed if nobody does.
 */
import { isSavepointError, SavepointError } from "../../errors.js";
import { scan } from "../../store/scan.js";
import type { Store } from "../../store/store.js";
import type { Context } from "../context.js";
import { decodeConversation } from "../conversation-records.js";
import {
  ALL_CONVERSATIONS,
  ALL_GONE_CONVERSATIONS,
  ALL_IMPORTS,
  ALL_NUMBERS,
  deadKey,
  decodeNumbers,
  importKey,
  lastNumberOf,
  NEXT_NUMBER,
} from "../keys.js";
import type { BundleHeader } from "./format.js";

interface StagingRecord {
  readonly by: number;
  /** When something was last stored, in milliseconds since 1970. */
  readonly at: number;
  readonly numbers: readonly number[];
}

/** An import that nobody has gone on with for so long is given up. */
const PATIENCE = 24 * 3_600_000;

export class Staging {
  /** By how much numbers move. */
  readonly by: number;
  readonly #context: Context;
  readonly #id: string;
  readonly #numbers: Set<number>;

  private constructor(context: Context, id: string, { by, numbers }: StagingRecord) {
    this.#context = context;
    this.#id = id;
    this.by = by;
    this.#numbers = new Set(numbers);
  }

  /** Goes on with an import that was interrupted, or takes numbers for a new one. They are given to nobody else. */
  static async begin(context: Context, { id, numbers }: BundleHeader): Promise<Staging> {
    const { store } = context;
    const [lowest, highest] = numbers;
    for (;;) {
      const [begun, counter] = await store.get([importKey(id), NEXT_NUMBER]);
      if (begun && "value" in begun) {
        const staging = new Staging(context, id, JSON.parse(begun.value) as StagingRecord);
        await staging.#write();
        return staging;
      }
      if (counter && !("value" in counter)) {
        throw new SavepointError("DAMAGED", `Nothing can be imported: ${counter.unreadable}. Repair the store first.`);
      }
      const next = Number(counter?.value ?? 0);
      // Higher than all that came, too: checkpoints of agents may name either.
      const by = next <= lowest ? 0 : Math.max(next, highest + 1) - lowest;
      const record: StagingRecord = { by, at: Date.now(), numbers: [] };
      try {
        await store.commit({
          checks: [
            begun ? { key: importKey(id), exists: true } : { key: importKey(id), value: undefined },
            { key: NEXT_NUMBER, value: counter?.value },
          ],
          puts: [
            { key: importKey(id), value: JSON.stringify(record) },
            { key: NEXT_NUMBER, value: String(highest + by + 1) },
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
  async note(number: number): Promise<void> {
    if (this.#numbers.has(number)) return;
    this.#numbers.add(number);
    await this.#write();
  }

  async #write(): Promise<void> {
    const record: StagingRecord = { by: this.by, at: Date.now(), numbers: [...this.#numbers] };
    await this.#context.store.commit({ puts: [{ key: importKey(this.#id), value: JSON.stringify(record) }] });
  }

  /** It is over, well or not: what is stored and nobody uses is freed, and a further try has other numbers. */
  async end(): Promise<void> {
    await release(this.#context, importKey(this.#id), this.#numbers);
  }
}

/** Frees what imports have left that nobody goes on with. */
export async function releaseOldImports(context: Context): Promise<void> {
  for await (const record of scan(context.store, ALL_IMPORTS)) {
    if (!("value" in record)) continue;
    const { at, numbers } = JSON.parse(record.value) as StagingRecord;
    if (Date.now() - at > PATIENCE) await release(context, record.key, numbers);
  }
}

/** Numbers that nothing has come to use are those of remains. */
async function release({ store }: Context, key: string, numbers: Iterable<number>): Promise<void> {
  const staged = [...numbers];
  const used = staged.length > 0 ? await numbersInUse(store) : new Set<number>();
  const puts = staged.filter((number) => !used.has(number)).map((number) => ({ key: deadKey(number), value: "" }));
  await store.commit({ deletes: [key], puts });
}

/** The numbers of sessions and conversations, and of deleted conversations that something still needs. */
async function numbersInUse(store: Store): Promise<Set<number>> {
  const used = new Set<number>();
  for await (const { key } of scan(store, ALL_NUMBERS)) used.add(decodeNumbers(key.slice(1), 1).numbers[0] as number);
  for await (const { key } of scan(store, ALL_GONE_CONVERSATIONS)) used.add(lastNumberOf(key));
  for await (const record of scan(store, ALL_CONVERSATIONS)) {
    if (!("value" in record) || record.key.split("\t").length > 2) continue;
    const { number, base } = decodeConversation(record.value);
    for (const each of [number, ...base.map(({ tape }) => tape)]) used.add(each);
  }
  return used;
}
