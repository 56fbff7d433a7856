/** Random operations on several handles of one folder: after each, all of them hold what a store in memory holds. */
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { isSavepointError } from "../../src/errors.js";
import { openFileStore, openMemoryStore, type Commit, type Store } from "../../src/store.js";
import { Random } from "../../src/testing/random.js";
import { blobOf, contentOf, frame } from "../../src/testing/samples.js";
import { makeFolder, removeFolder } from "./temporary-folder.js";
import { runs } from "../support/runs.js";

const SEEDS = runs(12, 1);
const STEPS = 70;
const KEYS = ["a", "b", "b/1", "b/2", "c", "é"];
const TAPES = ["t", "T", "u/1"];
const BLOBS = ["one", "two", "three"].map(blobOf);

let folder: string;
beforeEach(async () => {
  folder = join(await makeFolder(), "store");
});
afterEach(() => removeFolder(join(folder, "..")));

describe("three handles on one folder", () => {
  const base = Number(process.env["SAVEPOINT_SEED"] ?? Date.now() % 1_000_000);
  for (let seed = base; seed < base + SEEDS; seed++) {
    it(`have the same contents as a store in memory (seed ${seed})`, () => runRandom(new Random(seed)));
  }

  it("have the same contents as a store in memory (seed 245273)", () => runRandom(new Random(245_273)));
  it("have the same contents as a store in memory (seed 245275)", () => runRandom(new Random(245_275)));
  it("have the same contents as a store in memory (seed 245278)", () => runRandom(new Random(245_278)));
});

/** The last handle is asked only now and then: what it knows is old, whatever the others have deleted and packed. */
async function runRandom(random: Random): Promise<void> {
  let clock = 1_000;
  const now = (): number => clock;
  const model = openMemoryStore({ now });
  const next = new Map<string, number>();
  const open = (): Promise<Store> => openFileStore(folder, { durability: "process", now });
  const handles = [await open(), await open(), await open()];
  const steps: string[] = [];
  const onAll = async (what: string, index: number, work: (store: Store) => Promise<unknown>): Promise<void> => {
    steps.push(`${index}: ${what}`);
    expect(await outcomeOf(work, handles[index] as Store), steps.join("\n")).toEqual(await outcomeOf(work, model));
  };

  for (let step = 0; step < STEPS; step++) {
    clock += 10;
    const index = random.chance(90) ? random.below(2) : 2;
    const kind = random.below(100);
    if (kind < 60) {
      const commit = randomCommit(random, next);
      await onAll(`commit ${JSON.stringify(commit)}`, index, (store) => store.commit(commit));
    } else if (kind < 72) {
      const tape = random.pick(TAPES);
      const end = next.get(tape) ?? 0;
      const live = random.some(2, () => ({ start: random.below(end + 1), count: random.below(4) }));
      const options = { below: random.below(end + 2), repack: random.chance(50) };
      await onAll(`retain ${tape} ${JSON.stringify([live, options])}`, index, async (store) => {
        return (await store.retain(tape, live, options)).items;
      });
    } else if (kind < 80) {
      const hashes = random.some(3, () => random.pick(BLOBS).hash);
      const unusedSince = clock - random.below(60);
      await onAll(`dropBlobs ${hashes.length} ${unusedSince}`, index, async (store) => {
        return (await store.dropBlobs(hashes, { unusedSince })).items;
      });
    } else if (kind < 92) await onAll("compact", index, (store) => store.compact());
    else {
      steps.push(`${index}: reopen`);
      await handles[index]?.close();
      handles[index] = await open();
    }
    const expected = await contentOf(model);
    for (const [n, handle] of handles.entries()) {
      if (n === 2 && !random.chance(8)) continue;
      expect(await contentOf(handle), `handle ${n} after\n${steps.join("\n")}`).toEqual(expected);
    }
  }
  const expected = await contentOf(model);
  for (const [n, handle] of handles.entries()) {
    expect(await contentOf(handle), `handle ${n} at the end of\n${steps.join("\n")}`).toEqual(expected);
    expect(await handle.check?.()).toEqual([]);
    await handle.close();
  }
  const again = await open();
  expect(await contentOf(again), `opened again after\n${steps.join("\n")}`).toEqual(expected);
  await again.close();
}

/** What it resolves to; of a failure only its code and the keys, because messages name the store. */
async function outcomeOf(work: (store: Store) => Promise<unknown>, store: Store): Promise<unknown> {
  try {
    return await work(store);
  } catch (error) {
    if (isSavepointError(error)) return { code: error.code };
    throw error;
  }
}

function randomCommit(random: Random, next: Map<string, number>): Commit {
  const items = random.chance(50)
    ? []
    : random.some(2, () => {
        const tape = random.pick(TAPES);
        const first = next.get(tape) ?? 0;
        const run = random.some(3, () => frame({ n: random.below(1_000) }, random.chance(50) ? "" : "0+1"));
        next.set(tape, first + run.length);
        return { tape, first, items: run };
      });
  return {
    deletes: random.chance(50)
      ? []
      : random.some(2, () =>
          random.chance(50)
            ? random.pick(KEYS)
            : { from: random.pick(KEYS), to: random.pick(["b/", "b0", "~", "\u{10ffff}"]) },
        ),
    puts: random.some(2, () => ({
      key: random.pick(KEYS),
      value: random.pick(["", "1", '{"a":1}\n[2]', "text", '{"value":1,"sum":2}', "1,\t2"]),
      refs: random.pick(["", "0+1"]),
      ifAbsent: random.chance(20),
    })),
    items,
    blobs: random.chance(70) ? [] : [random.chance(70) ? random.pick(BLOBS) : { hash: random.pick(BLOBS).hash }],
  };
}

describe("a handle that is idle while others delete and compact", () => {
  let idle: Store;
  let busy: Store;
  beforeEach(async () => {
    busy = await openFileStore(folder);
    idle = await openFileStore(folder);
  });
  afterEach(async () => {
    await idle.close();
    await busy.close();
  });

  /** Everything that both know of a record and of two items, in the file of a tape. */
  async function begin(): Promise<void> {
    const items = [frame(0), frame(1)];
    await busy.commit({ puts: [{ key: "k", value: "1" }], items: [{ tape: "t", first: 0, items }] });
    expect(await contentOf(idle)).toEqual(await contentOf(busy));
  }

  it("notices that a record was deleted after its file was compacted twice", async () => {
    await begin();
    await busy.commit({ deletes: ["k"] });
    await busy.compact();
    await busy.compact();
    expect(await idle.get(["k"])).toEqual([undefined]);
    expect(await contentOf(idle)).toEqual(await contentOf(busy));
  });

  it("notices that everything was deleted when the files were removed", async () => {
    await begin();
    await busy.commit({ deletes: ["k"] });
    await busy.retain("t", [], { below: 2 });
    await busy.compact();
    await busy.compact();
    expect(await idle.get(["k"])).toEqual([undefined]);
    expect(await contentOf(idle)).toEqual(await contentOf(busy));
  });

  it("notices that a record was deleted when the commit log was rewritten meanwhile", async () => {
    await begin();
    await busy.commit({ deletes: ["k"] });
    await busy.retain("t", [], { below: 2 });
    await busy.compact();
    await busy.commit({ puts: [{ key: "other", value: "1" }] });
    await busy.compact();
    expect(await idle.get(["k", "other"])).toMatchObject([undefined, { value: "1" }]);
    await idle.commit({ items: [{ tape: "t", first: 2, items: [frame(2)] }] });
    expect(await contentOf(idle)).toEqual(await contentOf(busy));
  });

  it("reads a tape that was emptied, removed by compaction, and written to again", async () => {
    await begin();
    await busy.retain("t", [], { below: 2 });
    await busy.commit({ deletes: ["k"] });
    await busy.compact();
    await busy.compact();
    await busy.commit({ items: [{ tape: "t", first: 2, items: [frame(2)] }] });
    expect(await contentOf(idle)).toEqual(await contentOf(busy));
    await idle.commit({ items: [{ tape: "t", first: 3, items: [frame(3)] }] });
    expect(await contentOf(busy)).toEqual(await contentOf(idle));
  });

  it("writes to the current file after another handle has replaced the file that it knew", async () => {
    await begin();
    await busy.commit({ deletes: ["k"] });
    await busy.retain("t", [], { below: 2 });
    await busy.compact();
    await busy.compact();
    await idle.commit({ puts: [{ key: "mine", value: "1" }], items: [{ tape: "t", first: 2, items: [frame(2)] }] });
    expect(await contentOf(idle)).toEqual(await contentOf(busy));
    const again = await openFileStore(folder);
    expect(await contentOf(again)).toEqual(await contentOf(busy));
    await again.close();
  });
});
