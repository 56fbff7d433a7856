/** Concurrency: no update is lost, and no read sees a part of a commit. */
import assert from "node:assert/strict";
import { isSavepointError } from "../../errors.js";
import type { Store } from "../../store/index.js";
import { isUnreadable, preview, valueOf } from "../assertions.js";
import { blobOf, frame, frames, listAll, swap, writeItems } from "../samples.js";
import type { Suite } from "../suite.js";

export function concurrencySpec(suite: Suite): void {
  suite.describe("concurrency", () => {
    suite.test("concurrent commits on different keys and tapes are all applied", async ({ store }) => {
      const commits = Array.from({ length: 500 }, (_, n) =>
        store.commit({
          checks: [{ key: `k/${n}`, value: undefined }],
          puts: [{ key: `k/${n}`, value: String(n) }],
          items: [{ tape: `t/${n % 50}`, first: Math.floor(n / 50), items: [frame(n)] }],
          blobs: n % 10 ? [] : [blobOf(`blob ${n}`)],
        }),
      );
      await Promise.all(commits);
      assert.equal((await listAll(store, { from: "k/", to: "k0" })).length, 500);
      const spans = Array.from({ length: 50 }, (_, n) => ({ tape: `t/${n}`, start: 0, count: 10 }));
      const expected = spans.flatMap((_, tape) => Array.from({ length: 10 }, (_unused, n) => frame(50 * n + tape)));
      assert.deepEqual(await store.items(spans), expected);
      assert.equal((await store.blobs({ after: "", limit: 100 })).length, 50);
    });

    suite.test("concurrent increments that retry on conflict lose no update", async ({ store }) => {
      await Promise.all(Array.from({ length: 10 }, () => increment(store, 10)));
      assert.equal(await valueOf(store, "count"), "100");
    });

    suite.testShared("concurrent increments through two handles lose no update", async ({ store }, second) => {
      await Promise.all([increment(store, 40), increment(second, 40), increment(store, 40), increment(second, 40)]);
      assert.equal(await valueOf(store, "count"), "160");
      assert.equal(await valueOf(second, "count"), "160");
    });

    suite.test("a read of several keys sees one snapshot", ({ store }) => readWhileWriting(store, store));

    suite.testShared("a read of several keys through another handle sees one snapshot", ({ store }, second) =>
      readWhileWriting(store, second),
    );

    suite.test("items are intact when read while their tape is packed and freed", ({ store }) =>
      readWhilePacking(store, store),
    );

    suite.testShared(
      "items are intact when another handle reads them while their tape is packed",
      ({ store }, second) => readWhilePacking(store, second),
    );
  });
}

/** Increments a counter by compare-and-set, as writers of a branch do. */
async function increment(store: Store, times: number): Promise<void> {
  for (let done = 0; done < times;) {
    const value = await valueOf(store, "count");
    try {
      await store.commit(swap("count", value, String(Number(value ?? 0) + 1)));
      done++;
    } catch (error) {
      if (!isSavepointError(error, "CONFLICT")) throw error;
    }
  }
}

async function readWhileWriting(writer: Store, reader: Store): Promise<void> {
  const keys = ["a", "m", "z"];
  const write = async (): Promise<void> => {
    for (let n = 0; n < 100; n++) await writer.commit({ puts: keys.map((key) => ({ key, value: String(n) })) });
  };
  await repeatDuring(write(), async () => {
    for (const records of [await reader.get(keys), await reader.list({ from: "a", to: "zz" }, { limit: 10 })]) {
      const values = new Set(records.map((record) => (record && "value" in record ? record.value : record)));
      assert.ok(values.size <= 1, `Expected the values of one commit, got ${preview([...values])}.`);
    }
  });
}

async function readWhilePacking(writer: Store, reader: Store): Promise<void> {
  const live = { start: 100, count: 100 };
  for (let first = 0; first < 200; first += 5) await writeItems(writer, "t", first, frames(5, first));
  const pack = async (): Promise<void> => {
    for (let round = 0; round < 10; round++) {
      const first = 200 + round;
      await writeItems(writer, "t", first, frames(1, first));
      await writer.retain("t", [live], { below: 10 * (round + 1), repack: true });
      await writer.compact();
    }
  };
  await repeatDuring(pack(), async () => {
    const items = await reader.items([{ tape: "t", start: 0, count: 200 }]);
    assert.deepEqual(items.slice(100), frames(100, 100));
    for (const [n, item] of items.slice(0, 100).entries())
      if (!isUnreadable(item)) assert.deepEqual(item, frame({ n }));
  });
}

/** Repeats a check until the work has ended. */
async function repeatDuring(work: Promise<void>, check: () => Promise<void>): Promise<void> {
  let isDone = false;
  const checks = async (): Promise<void> => {
    while (!isDone) {
      await check();
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  await Promise.all([work.finally(() => (isDone = true)), checks()]);
}
