/** Refs of items, which garbage collection reads without the JSON of the items. */
import assert from "node:assert/strict";
import { assertItems } from "../assertions.js";
import { frame, writeItems } from "../samples.js";
import type { Suite } from "../suite.js";

export function refSpec(suite: Suite): void {
  suite.describe("refs of items", () => {
    suite.test("itemRefs() lists exactly the items that have refs, in order", async ({ store }) => {
      const items = [frame(0), frame(1, "0+1"), frame(2, "1:5+3,9+1;#9f86"), frame(3), frame(4, "2+2")];
      await writeItems(store, "t", 10, items);
      assert.deepEqual(await store.itemRefs({ tape: "t", start: 10, count: 5 }), [
        { item: 11, refs: "0+1" },
        { item: 12, refs: "1:5+3,9+1;#9f86" },
        { item: 14, refs: "2+2" },
      ]);
      await assertItems(store, "t", 10, items);
    });

    suite.test("itemRefs() returns only refs of the span, also across batches", async ({ store }) => {
      for (let first = 0; first < 20; first += 4) {
        const items = [0, 1, 2, 3].map((n) => frame(first + n, `${first + n}+1`));
        await writeItems(store, "t", first, items);
      }
      await writeItems(store, "u", 0, [frame("u", "99+1")]);
      const found = await store.itemRefs({ tape: "t", start: 3, count: 6 });
      const expected = [3, 4, 5, 6, 7, 8].map((item) => ({ item, refs: `${item}+1` }));
      assert.deepEqual(found, expected);
      assert.deepEqual(await store.itemRefs({ tape: "t", start: 3, count: 0 }), []);
    });

    suite.test("missing items and missing tapes have no refs", async ({ store }) => {
      await writeItems(store, "t", 5, [frame(5, "0+1")]);
      assert.deepEqual(await store.itemRefs({ tape: "t", start: 0, count: 5 }), []);
      assert.deepEqual(await store.itemRefs({ tape: "t", start: 6, count: 1_000_000 }), []);
      assert.deepEqual(await store.itemRefs({ tape: "t", start: 0, count: 2 ** 40 }), [{ item: 5, refs: "0+1" }]);
      assert.deepEqual(await store.itemRefs({ tape: "no such tape", start: 0, count: 5 }), []);
    });

    suite.test("packing a tape does not change its refs", async ({ store }) => {
      for (let n = 0; n < 150; n++) {
        await writeItems(store, "t", n, [frame(n, n % 3 ? "" : `é${n}+1`)]);
      }
      await store.compact();
      const expected = Array.from({ length: 50 }, (_, n) => ({ item: 3 * n, refs: `é${3 * n}+1` }));
      assert.deepEqual(await store.itemRefs({ tape: "t", start: 0, count: 150 }), expected);
    });
  });
}
