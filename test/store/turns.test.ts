/** Compacting a store runs in short slices: whatever else the process does gets its turns in between. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import { openStore, type Store } from "../../src/store.js";
import { Catalog } from "../../src/store/file/catalog.js";
import { newDataFile } from "../../src/store/file/data-file.js";
import { runSlices } from "../../src/util/slices.js";

// In memory, where no disk and no thread is waited for: whatever turns there are, compacting leaves on purpose.
let store: Store;
beforeEach(async () => {
  store = await openStore("sqlite::memory:");
});
afterEach(() => store.close());

/** How many turns the event loop had for others while this was done. */
async function countTurns(work: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  let done = false;
  const count = (): void => {
    if (done) return;
    turns++;
    setImmediate(count);
  };
  setImmediate(count);
  await work();
  done = true;
  return turns;
}

const text = (seed: number, length: number): string => JSON.stringify(String(seed).repeat(length).slice(0, length));

/** Writes rows of 64 items each to a tape. */
async function fillTape(tape: string, rows: number): Promise<void> {
  for (let row = 0; row < rows; row++) {
    const items = Array.from({ length: 64 }, (_, index) => ({ json: text(row * 64 + index, 40), refs: "" }));
    await store.commit({ items: [{ tape, first: row * 64, items }] });
  }
}

describe("while a SQLite store is compacted, the event loop gets a turn", () => {
  it("for each session of which garbage is collected", async () => {
    const sp = await Savepoint.open(store);
    for (let id = 0; id < 30; id++) await sp.session(`s${id}`).save({ id });
    expect(await countTurns(() => sp.compact())).toBeGreaterThanOrEqual(30);
  });

  it("for each tape that is checked, even if all are packed already", async () => {
    for (let tape = 0; tape < 30; tape++) await fillTape(`t${tape}`, 1);
    await store.compact();
    expect(await countTurns(() => store.compact())).toBeGreaterThanOrEqual(30);
  });

  it("for every eight rows that are packed anew without some of their items", async () => {
    await fillTape("t", 64);
    const live = Array.from({ length: 64 * 32 }, (_, index) => ({ start: 2 * index, count: 1 }));
    const turns = await countTurns(async () => {
      expect(await store.retain("t", live, { below: 64 * 64, repack: true })).toMatchObject({ items: 64 * 32 });
    });
    expect(turns).toBeGreaterThanOrEqual(7);
    const [kept, freed] = await store.items([{ tape: "t", start: 100, count: 2 }]);
    expect(kept).toEqual({ json: text(100, 40), refs: "" });
    expect(freed).toHaveProperty("unreadable");
  });

  it("for every 256 pages that are returned to the file system", async () => {
    const puts = Array.from({ length: 40 }, (_, index) => ({ key: `k${index}`, value: text(index, 200_000) }));
    await store.commit({ puts });
    await store.commit({ deletes: puts.map(({ key }) => key) });
    const turns = await countTurns(() => store.compact());
    expect(turns).toBeGreaterThanOrEqual(Math.floor((puts.length * 200_000) / 4096 / 256) - 1);
  });

  it("for every 16 blobs that are freed", async () => {
    const hashes = Array.from({ length: 64 }, (_, index) => index.toString(16).padStart(64, "0"));
    await store.commit({ blobs: hashes.map((hash, index) => ({ hash, bytes: new Uint8Array(100).fill(index) })) });
    const turns = await countTurns(async () => {
      expect(await store.dropBlobs(hashes, { unusedSince: (await store.now()) + 1000 })).toMatchObject({ items: 64 });
    });
    expect(turns).toBeGreaterThanOrEqual(3);
  });

  it("for every 4,096 keys that are looked at", async () => {
    const count = 4096 * 3;
    await store.commit({ puts: Array.from({ length: count }, (_, index) => ({ key: `k${index}`, value: "1" })) });
    expect(await countTurns(() => store.compact())).toBeGreaterThanOrEqual(3);
    expect(await store.list({ from: "k", to: "l" }, { limit: count + 1 })).toHaveLength(count);
  });
});

it("a save that begins during the compaction of a SQLite store finishes before the compaction", async () => {
  const sp = await Savepoint.open(store);
  for (let id = 0; id < 30; id++) await sp.session(`s${id}`).save({ id });
  const order: string[] = [];
  const compacting = sp.compact().then(() => order.push("compacted"));
  await new Promise((resolve) => setImmediate(resolve));
  await sp.session("other").save({ n: 1 });
  order.push("saved");
  await compacting;
  expect(order).toEqual(["saved", "compacted"]);
});

it("while a file store lists its contents, the event loop gets a turn for every 4,096 entries", async () => {
  const catalog = new Catalog();
  const file = newDataFile("records", "records.jsonl", 1);
  for (let n = 0; n < 4096 * 3; n++) catalog.apply({ file, offset: n, length: 1, head: { put: `k${n}`, at: n } });
  const turns = await countTurns(async () => {
    expect((await runSlices(catalog.heads())).get(file)).toHaveLength(4096 * 3);
  });
  expect(turns).toBeGreaterThanOrEqual(2);
});
