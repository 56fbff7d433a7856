/** Random operations on the store and on a memory store: all results must be equal. */
import assert from "node:assert/strict";
import { isSavepointError } from "../../errors.js";
import type { Commit, CommitResult, ItemSpan, Store, Unreadable } from "../../store/index.js";
import { assertSame, isUnreadable, preview } from "../assertions.js";
import { BLOBS, KEYS, StoreModel, TAPES } from "../random-commits.js";
import { Random } from "../random.js";
import { EVERYTHING } from "../samples.js";
import type { TestStore, Suite } from "../suite.js";

const STEPS = 120;

/** @param seed the seed of the first round; later rounds use the following numbers */
export function randomOperationsSpec(suite: Suite, seed: number, rounds: number): void {
  suite.describe("random operations", () => {
    for (let round = 0; round < rounds; round++) {
      suite.test(
        `random operations have the same results as on a memory store (${round + 1} of ${rounds})`,
        (testStore) => new Comparison(testStore, suite.isReopenable, new Random(seed + round)).run(),
      );
    }
  });
}

type Operation = "commit" | "read" | "retain" | "dropBlobs" | "compact" | "reopen";

class Comparison {
  readonly #testStore: TestStore;
  readonly #isReopenable: boolean;
  readonly #random: Random;
  readonly #model: StoreModel;
  #store: Store;
  readonly #operations: Readonly<Record<Operation, () => Promise<void>>> = {
    commit: () => this.#commit(),
    read: () => this.#read(),
    retain: () => this.#retain(),
    dropBlobs: () => this.#dropBlobs(),
    compact: () => this.#store.compact(),
    reopen: () => this.#reopen(),
  };

  constructor(testStore: TestStore, isReopenable: boolean, random: Random) {
    this.#testStore = testStore;
    this.#isReopenable = isReopenable;
    this.#random = random;
    this.#model = new StoreModel(random);
    this.#store = testStore.store;
  }

  async run(): Promise<void> {
    for (let step = 1; step <= STEPS; step++) {
      const operation = this.#pickOperation();
      try {
        await this.#operations[operation]();
        if (step % 40 === 0) await this.#everything();
      } catch (cause) {
        const where = `Step ${step}, ${operation}, with the seed ${this.#random.seed}`;
        throw new Error(`${where}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
      }
    }
  }

  #pickOperation(): Operation {
    const chance = this.#random.below(100);
    if (chance < 55) return "commit";
    if (chance < 80) return "read";
    if (chance < 88) return "retain";
    if (chance < 92) return "dropBlobs";
    if (chance < 96) return "compact";
    return this.#isReopenable ? "reopen" : "commit";
  }

  /** Calls several commits without awaiting each. */
  async #commit(): Promise<void> {
    const commits: Commit[] = [];
    const expected: Outcome[] = [];
    for (let left = this.#random.pick([1, 1, 2, 5]); left > 0; left--) {
      const commit = await this.#model.randomCommit();
      const outcome = await outcomeOf(this.#model.store.commit(commit));
      if (typeof outcome !== "string") this.#model.recordCommit(commit, outcome.firsts);
      commits.push(commit);
      expected.push(outcome);
    }
    const found = await Promise.all(commits.map((commit) => outcomeOf(this.#store.commit(commit))));
    assertSame(found, expected, `The outcome of ${preview(commits)}`);
  }

  async #read(): Promise<void> {
    const random = this.#random;
    const keys = random.some(5, () => random.pick(KEYS));
    const range = this.#model.randomRange(KEYS);
    const options = { limit: random.below(6), reverse: random.chance(50) };
    const after = random.pick(["", ...BLOBS.map(({ hash }) => hash)]);
    const pages = { after, limit: random.below(4) };
    const { hash } = random.pick(BLOBS);
    await this.#same(`get ${JSON.stringify(keys)}`, (store) => store.get(keys));
    await this.#same(`list ${JSON.stringify({ range, options })}`, (store) => store.list(range, options));
    await this.#same(`blobs ${JSON.stringify(pages)}`, (store) => store.blobs(pages));
    await this.#same(`blob ${hash}`, async (store) => bytesOrMissing(await store.blob(hash)));
    await this.#sameItems(random.some(3, () => this.#span()));
    await this.#sameRefs(this.#span());
    await this.#sameTapes();
  }

  async #retain(): Promise<void> {
    const random = this.#random;
    const tape = random.pick(TAPES);
    const live = random.some(4, () => ({
      start: random.below(this.#model.nextItem(tape) + 1),
      count: random.below(30),
    }));
    const options = { below: random.below(this.#model.nextItem(tape) + 5), repack: random.chance(60) };
    await this.#store.retain(tape, live, options);
    await this.#model.store.retain(tape, live, options);
    const lingering = this.#model.lingering.get(tape);
    for (const item of this.#model.written.get(tape)?.keys() ?? []) {
      if (item >= options.below || live.some(({ start, count }) => item >= start && item < start + count)) continue;
      if (options.repack) lingering?.delete(item);
      else lingering?.add(item);
    }
  }

  async #dropBlobs(): Promise<void> {
    const hashes = this.#random.some(3, () => this.#random.pick(BLOBS).hash);
    const unusedSince = this.#random.pick([0, Date.UTC(2200, 0)]);
    await this.#same("the dropped blobs", async (store) => (await store.dropBlobs(hashes, { unusedSince })).items);
  }

  async #reopen(): Promise<void> {
    await this.#store.close();
    this.#store = await this.#testStore.reopen();
  }

  async #everything(): Promise<void> {
    await this.#same("everything", (store) => store.list(EVERYTHING, { limit: 1_000 }));
    await this.#same("all blobs", (store) => store.blobs({ after: "", limit: 1_000 }));
    for (const tape of TAPES) {
      const span = { tape, start: 0, count: this.#model.nextItem(tape) + 3 };
      await this.#sameItems([span]);
      await this.#sameRefs(span);
    }
  }

  async #same(what: string, read: (store: Store) => Promise<unknown>): Promise<void> {
    assertSame(await read(this.#store), await read(this.#model.store), what);
  }

  async #sameItems(spans: readonly ItemSpan[]): Promise<void> {
    const expected = await this.#model.store.items(spans);
    const found = await this.#store.items(spans);
    assert.equal(found.length, expected.length, "The number of items");
    const places = spans.flatMap(({ tape, start, count }) =>
      Array.from({ length: count }, (_, n) => ({ tape, item: start + n })),
    );
    for (const [index, { tape, item }] of places.entries()) {
      const what = `Item ${item} of ${tape}`;
      if (!isUnreadable(expected[index])) assertSame(found[index], expected[index], what);
      else if (this.#model.lingering.get(tape)?.has(item) && !isUnreadable(found[index])) {
        assertSame(found[index], this.#model.written.get(tape)?.get(item), what);
      } else assert.ok(isUnreadable(found[index]), `${what} should be missing.`);
    }
  }

  async #sameRefs(span: ItemSpan): Promise<void> {
    const found = await this.#store.itemRefs(span);
    assert.ok(!isUnreadable(found));
    const lingering = this.#model.lingering.get(span.tape);
    const dead = found.filter(({ item }) => lingering?.has(item));
    for (const { item, refs } of dead) assert.equal(refs, this.#model.written.get(span.tape)?.get(item)?.refs);
    const live = found.filter(({ item }) => !lingering?.has(item));
    assertSame(live, await this.#model.store.itemRefs(span), `itemRefs ${JSON.stringify(span)}`);
  }

  async #sameTapes(): Promise<void> {
    const range = this.#model.randomRange(TAPES);
    const found = await this.#store.tapes(range);
    const expected = await this.#model.store.tapes(range);
    const mayStay = found.filter((tape) => expected.includes(tape) || !this.#model.lingering.get(tape)?.size);
    assertSame(mayStay, expected, `tapes ${JSON.stringify(range)}`);
  }

  #span(): ItemSpan {
    const tape = this.#random.pick([...TAPES, "no such tape"]);
    return { tape, start: this.#random.below(this.#model.nextItem(tape) + 3), count: this.#random.below(40) };
  }
}

/** The result of a commit, or the code of its error. */
type Outcome = CommitResult | string;

async function outcomeOf(commit: Promise<CommitResult>): Promise<Outcome> {
  try {
    return await commit;
  } catch (error) {
    if (isSavepointError(error, "CONFLICT")) return error.code;
    throw error;
  }
}

function bytesOrMissing(bytes: Uint8Array | Unreadable): string {
  return isUnreadable(bytes) ? "missing" : Buffer.from(bytes).toString("hex");
}
