/** Random commits, and a model of their effects: a memory store, and the items that it has freed. */
import {
  type BlobUse,
  type Check,
  type Commit,
  type Frame,
  type ItemBatch,
  type KeyRange,
  openMemoryStore,
  type Put,
} from "../store/index.js";
import { isUnreadable } from "./assertions.js";
import type { Random } from "./random.js";
import { blobOf, frame, framesOf } from "./samples.js";

export const KEYS = ["a", "b", "b/1", "b/2", "b/é", "b/\u{fffd}", "b/\u{10000}", "b0", "c"];
export const TAPES = ["t/1", "t/2", "log/1", "log/2"];
export const BLOBS = ["", "one", "two", "three", "\u0000"].map(blobOf);

/** The counter of two tapes. Because they share it, the numbers of each have gaps. */
const COUNTER = "x-counter";
const FAR_FUTURE = Date.UTC(2200, 0);

/** The expected content of a store after a series of random commits. */
export class StoreModel {
  readonly store = openMemoryStore();
  /** All items that were ever written, by tape. */
  readonly written = new Map<string, Map<number, Frame>>(TAPES.map((tape) => [tape, new Map()]));
  /** Freed items that a store may still have, because they are packed together with live ones. */
  readonly lingering = new Map<string, Set<number>>(TAPES.map((tape) => [tape, new Set()]));
  readonly #random: Random;
  readonly #next = new Map<string, number>();

  constructor(random: Random) {
    this.#random = random;
  }

  /** The first number of a tape that was never used. */
  nextItem(tape: string): number {
    return this.#next.get(tape) ?? 0;
  }

  /** Records the items of an applied commit. */
  recordCommit(commit: Commit, firsts: readonly number[]): void {
    for (const [index, batch] of (commit.items ?? []).entries()) {
      const first = firsts[index] ?? 0;
      const { tape } = batch;
      const items = framesOf(batch, first);
      for (const [offset, item] of items.entries()) this.written.get(tape)?.set(first + offset, item);
      this.#next.set(tape, Math.max(this.nextItem(tape), first + items.length));
    }
  }

  async randomCommit(): Promise<Commit> {
    const random = this.#random;
    const commit = {
      checks: random.chance(60) ? [] : await this.#checks(),
      deletes: random.chance(70)
        ? []
        : random.some(2, () => (random.chance(60) ? random.pick(KEYS) : this.randomRange(KEYS, "x"))),
      puts: random.some(3, () => this.#put()),
      items: random.chance(30) ? [] : await this.#batches(),
      blobs: random.chance(70) ? [] : random.some(2, () => this.#blob()),
    };
    if (random.chance(90)) return commit;
    return { ...commit, notBefore: random.pick([0, FAR_FUTURE]) };
  }

  /** @param last the greatest end. Deletes must not include the counter, because its numbers must not be reused */
  randomRange(names: readonly string[], last = "\u{10ffff}"): KeyRange {
    const end = (): string => this.#random.pick([...names, "", "b/", "log/", last]);
    return { from: end(), to: end() };
  }

  async #checks(): Promise<Check[]> {
    const checks: Check[] = [];
    for (const key of this.#random.some(2, () => this.#random.pick(KEYS))) {
      const [record] = await this.store.get([key]);
      const value = record && "value" in record ? record.value : undefined;
      if (this.#random.chance(20)) checks.push({ key, value: this.#random.pick(["", "0", "1"]) });
      else checks.push(value !== undefined && this.#random.chance(30) ? { key, exists: true } : { key, value });
    }
    return checks;
  }

  #put(): Put {
    const random = this.#random;
    const put = {
      key: random.pick(KEYS),
      value: random.pick(["", "0", "1", "é\u{1f600}"]),
      ifAbsent: random.chance(20),
    };
    return random.chance(50) ? put : { ...put, refs: random.pick(["", "0+1", "1:2+3;#é"]) };
  }

  #blob(): BlobUse {
    const { hash, bytes } = this.#random.pick(BLOBS);
    return this.#random.chance(60) ? { hash, bytes } : { hash };
  }

  async #batches(): Promise<ItemBatch[]> {
    const random = this.#random;
    const batches: ItemBatch[] = [];
    const next = new Map(TAPES.map((tape) => [tape, this.nextItem(tape)]));
    for (const tape of random.some(3, () => random.pick(TAPES))) {
      if (tape.startsWith("log/")) {
        batches.push({ tape, counter: COUNTER, items: this.#items() });
      } else if (random.chance(10)) {
        const first = random.below(this.nextItem(tape) + 1);
        // Callers promise not to reuse the numbers of freed items.
        if (await this.#isUsable(tape, first)) batches.push({ tape, first, items: [this.#item()] });
      } else {
        const items = this.#items();
        const first = (next.get(tape) ?? 0) + (random.chance(20) ? random.below(4) : 0);
        next.set(tape, first + items.length);
        batches.push({ tape, first, items });
      }
    }
    return batches;
  }

  async #isUsable(tape: string, item: number): Promise<boolean> {
    if (!this.written.get(tape)?.has(item)) return true;
    return !isUnreadable((await this.store.items([{ tape, start: item, count: 1 }]))[0]);
  }

  #items(): Frame[] {
    const count = this.#random.chance(90) ? this.#random.below(5) : this.#random.below(90);
    return Array.from({ length: count }, () => this.#item());
  }

  #item(): Frame {
    const random = this.#random;
    const text = random
      .pick(["x", "é", "\u{1f600}", "\u0000\ud800"])
      .repeat(random.chance(95) ? random.below(20) : random.below(20_000));
    return frame({ n: random.below(1_000), text }, random.chance(80) ? "" : `${random.below(100)}+1`);
  }
}
