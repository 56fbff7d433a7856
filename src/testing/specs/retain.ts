/** Freeing items: live items are unchanged, even if they are packed together with freed ones. */
import assert from "node:assert/strict";
import type { Frame, ItemSpan, Store } from "../../store/index.js";
import { assertItems, isUnreadable } from "../assertions.js";
import { EVERYTHING, frame, writeItems } from "../samples.js";
import type { Suite } from "../suite.js";

const ITEMS = 300;

type Span = Omit<ItemSpan, "tape">;

export function retainSpec(suite: Suite): void {
  suite.describe("retain", () => {
    for (const [layout, step] of Object.entries({ "one by one": 1, "in small batches": 7, "at once": ITEMS })) {
      suite.test(`retain() keeps live items and frees all others, written ${layout}`, async ({ store }) => {
        await write(store, step);
        const live = spansOf([10, 1], [60, 70], [200, 5]);
        const freed = await store.retain("t", live, { below: 250, repack: true });
        assert.equal(freed.items, 250 - 76);
        assert.ok(freed.bytes > 0);
        await assertLeft(store, (n) => isIn(live, n) || n >= 250);
      });

      suite.test(`retain() without repack never frees live items, written ${layout}`, async ({ store }) => {
        await write(store, step);
        const live = spansOf([100, 100]);
        const freed = await store.retain("t", live, { below: ITEMS });
        const items = await store.items([{ tape: "t", start: 0, count: ITEMS }]);
        for (const [n, item] of items.entries()) {
          if (isUnreadable(item)) assert.ok(!isIn(live, n), `Item ${n} is live but was freed.`);
          else assert.deepEqual(item, itemOf(n));
        }
        assert.equal(freed.items, items.filter(isUnreadable).length);
        const rest = await store.retain("t", live, { below: ITEMS, repack: true });
        assert.equal(freed.items + rest.items, 200);
        await assertLeft(store, (n) => isIn(live, n));
      });
    }

    suite.test("live spans may overlap, touch, repeat, be empty and come in any order", async ({ store }) => {
      await write(store, 7);
      const live = spansOf([50, 20], [10, 30], [20, 5], [10, 30], [40, 10], [100, 0], [280, 1_000]);
      await store.retain("t", live, { below: 290, repack: true });
      await assertLeft(store, (n) => isIn(live, n) || n >= 290);
    });

    suite.test("a live span may extend past `below`", async ({ store }) => {
      await write(store, ITEMS);
      const live = spansOf([20, 20]);
      assert.equal((await store.retain("t", live, { below: 32, repack: true })).items, 20);
      await assertLeft(store, (n) => n >= 20);
    });

    suite.test("retain() frees no items at or above `below`", async ({ store }) => {
      await write(store, 3);
      await store.retain("t", [], { below: 100, repack: true });
      await assertLeft(store, (n) => n >= 100);
      assert.deepEqual(await store.retain("t", [], { below: 0, repack: true }), { items: 0, bytes: 0 });
      assert.deepEqual(await store.retain("t", [], { below: 100, repack: true }), { items: 0, bytes: 0 });
    });

    suite.test("a tape without items is not listed, and other tapes are unchanged", async ({ store }) => {
      await write(store, 50);
      await writeItems(store, "u", 0, [frame("u")]);
      assert.equal((await store.retain("t", [], { below: ITEMS })).items, ITEMS);
      assert.deepEqual(await store.tapes(EVERYTHING), ["u"]);
      await assertItems(store, "u", 0, [frame("u")]);
      assert.deepEqual(await store.retain("no such tape", [], { below: 10 }), { items: 0, bytes: 0 });
    });

    suite.test("items can be appended after freed ones and read together with retained ones", async ({ store }) => {
      await write(store, 7);
      await store.retain("t", [{ start: 298, count: 2 }], { below: ITEMS, repack: true });
      await writeItems(store, "t", ITEMS, [itemOf(ITEMS), itemOf(ITEMS + 1)]);
      await store.compact();
      const expected = [undefined, itemOf(298), itemOf(299), itemOf(300), itemOf(301), undefined];
      await assertItems(store, "t", 297, expected);
    });

    suite.test("retain() frees many separate parts of a long tape", async ({ store }) => {
      const items = Array.from({ length: 6_000 }, (_, n) => itemOf(n));
      for (let first = 0; first < 6_000; first += 300) {
        const batch = items.slice(first, first + 300);
        await Promise.all(batch.map((one, n) => writeItems(store, "t", first + n, [one])));
      }
      const live = Array.from({ length: 60 }, (_, n) => ({ start: 100 * n, count: 20 }));
      const freed = await store.retain("t", live, { below: 6_000, repack: true });
      assert.equal(freed.items, 4_800);
      const found = await store.items([{ tape: "t", start: 0, count: 6_000 }]);
      for (const [n, item] of found.entries()) {
        if (n % 100 < 20) assert.deepEqual(item, items[n]);
        else assert.ok(isUnreadable(item));
      }
    });
  });
}

/** An item of the tape. Every third has refs. */
function itemOf(n: number): Frame {
  return frame({ n, text: "é".repeat(n % 10) }, n % 3 ? "" : `${n}+1`);
}

async function write(store: Store, step: number): Promise<void> {
  const commits: Promise<unknown>[] = [];
  for (let first = 0; first < ITEMS; first += step) {
    const items = Array.from({ length: Math.min(step, ITEMS - first) }, (_, n) => itemOf(first + n));
    commits.push(writeItems(store, "t", first, items));
  }
  await Promise.all(commits);
}

function spansOf(...spans: readonly (readonly [start: number, count: number])[]): Span[] {
  return spans.map(([start, count]) => ({ start, count }));
}

function isIn(spans: readonly Span[], n: number): boolean {
  return spans.some(({ start, count }) => n >= start && n < start + count);
}

/** Asserts that exactly these items are left, with their refs, before and after compaction. */
async function assertLeft(store: Store, isLeft: (n: number) => boolean): Promise<void> {
  const numbers = Array.from({ length: ITEMS }, (_, n) => n);
  const expected = numbers.map((n) => (isLeft(n) ? itemOf(n) : undefined));
  for (const when of ["before", "after"]) {
    if (when === "after") await store.compact();
    await assertItems(store, "t", 0, expected);
    const refs = numbers.filter((n) => isLeft(n) && n % 3 === 0).map((n) => ({ item: n, refs: `${n}+1` }));
    assert.deepEqual(await store.itemRefs({ tape: "t", start: 0, count: ITEMS }), refs);
  }
}
