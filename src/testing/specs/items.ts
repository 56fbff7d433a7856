/** Items: they are read back by their numbers, independent of the commits that have added them. */
import assert from "node:assert/strict";
import { assertItems, assertSame, assertUnreadable, rejectsWithConflict } from "../assertions.js";
import { EVERYTHING, frame, frames, writeItems } from "../samples.js";
import type { Suite } from "../suite.js";

export function itemSpec(suite: Suite): void {
  suite.describe("items", () => {
    suite.test("items are read back by their numbers", async ({ store }) => {
      const { firsts } = await writeItems(store, "t", 0, frames(5));
      assert.deepEqual(firsts, [0]);
      await assertItems(store, "t", 0, frames(5));
      await assertItems(store, "t", 2, frames(2, 2));
    });

    suite.test("a span may cover items of several commits", async ({ store }) => {
      let first = 0;
      for (const count of [3, 1, 5, 3]) {
        await writeItems(store, "t", first, frames(count, first));
        first += count;
      }
      for (let start = 0; start < 12; start++) {
        await assertItems(store, "t", start, frames(12 - start, start));
        await assertItems(store, "t", 0, frames(start));
      }
    });

    suite.test("spans are answered in order, including a span that is requested twice", async ({ store }) => {
      await writeItems(store, "a", 0, frames(4));
      await writeItems(store, "b", 10, frames(4, 10));
      const spans = [
        { tape: "b", start: 12, count: 2 },
        { tape: "a", start: 1, count: 1 },
        { tape: "a", start: 0, count: 0 },
        { tape: "b", start: 12, count: 2 },
      ];
      assert.deepEqual(await store.items(spans), [...frames(2, 12), ...frames(1, 1), ...frames(2, 12)]);
      assert.deepEqual(await store.items([]), []);
    });

    suite.test("missing items are unreadable at their position", async ({ store }) => {
      await writeItems(store, "t", 2, frames(2, 2));
      await writeItems(store, "t", 6, frames(1, 6));
      const there = new Set([2, 3, 6]);
      const expected = Array.from({ length: 9 }, (_, n) => (there.has(n) ? frames(1, n)[0] : undefined));
      await assertItems(store, "t", 0, expected);
      await assertItems(store, "t", 4, [undefined, undefined]);
      await assertItems(store, "t", 1_000_000, [undefined]);
      await assertItems(store, "no such tape", 0, [undefined, undefined]);
    });

    suite.test("item numbers of one tape may lie far apart", async ({ store }) => {
      const numbers = [0, 1_000, 2 ** 31, 2 ** 32 + 1, 2 ** 52];
      for (const first of numbers) await writeItems(store, "t", first, [frame(first)]);
      for (const start of numbers) {
        await assertItems(store, "t", start, [frame(start), undefined]);
        if (start > 0) await assertItems(store, "t", start - 1, [undefined, frame(start)]);
      }
    });

    suite.test("batches may be added out of order and fill gaps", async ({ store }) => {
      for (const first of [8, 0, 4]) await writeItems(store, "t", first, frames(4, first));
      await assertItems(store, "t", 0, frames(12));
    });

    suite.test("one commit may add several batches, also to one tape", async ({ store }) => {
      const items = [
        { tape: "a", first: 4, items: frames(2, 4) },
        { tape: "b", first: 0, items: frames(1) },
        { tape: "a", first: 6, items: frames(2, 6) },
      ];
      const { firsts } = await store.commit({ items });
      assert.deepEqual(firsts, [4, 0, 6]);
      await assertItems(store, "a", 4, frames(4, 4));
      await assertItems(store, "b", 0, frames(1));
    });

    suite.test("an empty batch writes nothing and creates no tape", async ({ store }) => {
      const { firsts } = await writeItems(store, "t", 7, []);
      assert.deepEqual(firsts, [7]);
      assert.deepEqual(await store.tapes(EVERYTHING), []);
    });

    suite.test("a batch that contains a number in use conflicts, at any position in the batch", async ({ store }) => {
      await writeItems(store, "t", 10, frames(5, 10));
      for (const first of [7, 10, 12, 14]) {
        await rejectsWithConflict("t", store, { items: [{ tape: "t", first, items: frames(4) }] });
      }
      await rejectsWithConflict("t", store, { items: [{ tape: "t", first: 0, items: frames(100) }] });
      await writeItems(store, "t", 6, frames(4, 6));
      await writeItems(store, "t", 15, frames(1, 15));
      await assertItems(store, "t", 6, frames(10, 6));
    });

    suite.test("a number in use conflicts after the tape is packed", async ({ store }) => {
      for (let first = 0; first < 200; first += 2) await writeItems(store, "t", first, frames(2, first));
      await store.compact();
      for (const first of [0, 1, 63, 64, 65, 101, 199]) {
        await rejectsWithConflict("t", store, { items: [{ tape: "t", first, items: [frame("again")] }] });
      }
      await assertItems(store, "t", 0, [...frames(200), undefined]);
    });

    suite.test("two overlapping batches in one commit conflict", async ({ store }) => {
      const items = [
        { tape: "t", first: 0, items: frames(4) },
        { tape: "t", first: 3, items: frames(4) },
      ];
      await rejectsWithConflict("t", store, { items });
      assert.deepEqual(await store.tapes(EVERYTHING), []);
    });

    suite.test("tapes with similar names are kept apart", async ({ store }) => {
      const tapes = ["a", "A", "a ", "a/1", "a/10", "a%", "é", "e\u0301", "'", "\u{1f600}", "t".repeat(4_096)];
      await store.commit({ items: tapes.map((tape) => ({ tape, first: 0, items: [frame(tape)] })) });
      for (const tape of tapes) await assertItems(store, tape, 0, [frame(tape)]);
      assert.equal((await store.tapes(EVERYTHING)).length, tapes.length);
    });

    suite.test("tapes are listed by range, in the order of their UTF-8 bytes", async ({ store }) => {
      const tapes = ["a", "b/1", "b/2", "b0", "\u{fffd}", "\u{10000}"];
      const shuffled = [3, 5, 0, 2, 4, 1].map((index) => tapes[index] as string);
      await store.commit({ items: shuffled.map((tape) => ({ tape, first: 3, items: frames(2) })) });
      assert.deepEqual(await store.tapes(EVERYTHING), tapes);
      assert.deepEqual(await store.tapes({ from: "b/", to: "b0" }), ["b/1", "b/2"]);
      assert.deepEqual(await store.tapes({ from: "b/1", to: "b/1" }), []);
    });

    suite.test("every character of an item is preserved", async ({ store }) => {
      const texts = ["", "é", "日本語", "\u{1f600}", "\u0000", "\ud800", "\udc00x", "\u{feff}", "\u2028", "'\"\\"];
      const items = [...texts, "\r\n", null, 0, {}].map((value) => frame(value));
      await writeItems(store, "t", 0, items);
      await assertItems(store, "t", 0, items);
    });

    suite.test("items of several megabytes are stored beside small ones", async ({ store }) => {
      const texts = ["before", "x".repeat(5_000_000), "é\u{1f600}".repeat(500_000), "after"];
      const items = texts.map((text) => frame(text));
      await writeItems(store, "t", 0, items);
      await writeItems(store, "t", 4, items);
      await assertItems(store, "t", 0, [...items, ...items]);
    });

    suite.test("one commit may add thousands of items", async ({ store }) => {
      const items = frames(10_000);
      await writeItems(store, "t", 0, items);
      assertSame(await store.items([{ tape: "t", start: 0, count: 10_000 }]), items, "The items");
      const spans = Array.from({ length: 1_000 }, (_, n) => ({ tape: "t", start: (n * 7_919) % 10_000, count: 1 }));
      const expected = spans.map(({ start }) => items[start]);
      assertSame(await store.items(spans), expected, "Single items");
    });

    suite.test("a span with a missing item returns all other items", async ({ store }) => {
      await writeItems(store, "t", 0, frames(100));
      await writeItems(store, "t", 101, frames(100, 101));
      const found = await store.items([{ tape: "t", start: 0, count: 201 }]);
      assertUnreadable(found[100]);
      assertSame([...found.slice(0, 100), ...found.slice(101)], [...frames(100), ...frames(100, 101)], "The items");
    });
  });
}
