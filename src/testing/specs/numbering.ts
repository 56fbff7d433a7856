/** Appends that the store numbers: concurrent appends never get the same numbers. */
import assert from "node:assert/strict";
import type { CommitResult, Frame, Store } from "../../store/index.js";
import { assertItems, rejectsWithConflict, isUnreadable, rejectsWith, valueOf } from "../assertions.js";
import { appendItems, frame, frames, putsOf } from "../samples.js";
import type { Suite } from "../suite.js";

export function numberingSpec(suite: Suite): void {
  suite.describe("numbered appends", () => {
    suite.test("a missing counter starts at 0 and increases by the number of appended items", async ({ store }) => {
      const append = async (count: number): Promise<readonly number[]> =>
        (await appendItems(store, "t", "next", frames(count))).firsts;
      assert.deepEqual(await append(2), [0]);
      assert.equal(await valueOf(store, "next"), "2");
      assert.deepEqual(await append(3), [2]);
      assert.deepEqual(await append(0), [5]);
      assert.equal(await valueOf(store, "next"), "5");
      await assertItems(store, "t", 0, [...frames(2), ...frames(3), undefined]);
    });

    suite.test("batches of one commit may share a counter, also across tapes", async ({ store }) => {
      const { firsts } = await store.commit({
        items: [
          { tape: "a", counter: "next", items: frames(2) },
          { tape: "b", counter: "next", items: frames(3) },
          { tape: "a", counter: "other", items: [frame("no")] },
          { tape: "c", first: 7, items: frames(1) },
        ],
        // The counter of the third batch is put before it is used.
        puts: [{ key: "other", value: "40" }],
      });
      assert.deepEqual(firsts, [0, 2, 40, 7]);
      assert.deepEqual([await valueOf(store, "next"), await valueOf(store, "other")], ["5", "41"]);
    });

    suite.test("items that depend on their numbers are built when the numbers are known", async ({ store }) => {
      const numbered = (first: number): Frame[] => [frame({ at: first }), frame({ at: first + 1 }, "0+1")];
      const append = (): Promise<CommitResult> =>
        store.commit({ items: [{ tape: "t", counter: "next", items: numbered }] });
      const results = await Promise.all([append(), append(), append()]);
      assert.deepEqual(new Set(results.map(({ firsts }) => firsts[0])), new Set([0, 2, 4]));
      assert.equal(await valueOf(store, "next"), "6");
      await assertItems(store, "t", 0, [...numbered(0), ...numbered(2), ...numbered(4)]);
    });

    suite.testShared("such items get the numbers that other processes have left", async ({ store }, second) => {
      const numbered = (first: number): Frame[] => [frame({ at: first })];
      const append = (handle: Store): Promise<CommitResult> =>
        handle.commit({ items: [{ tape: "t", counter: "next", items: numbered }] });
      for (const handle of [store, second, second, store]) await append(handle);
      await Promise.all([store, second, store, second].map(append));
      await assertItems(
        store,
        "t",
        0,
        Array.from({ length: 8 }, (_, at) => frame({ at })),
      );
    });

    suite.test("a counter deleted by the same commit restarts at 0", async ({ store }) => {
      await appendItems(store, "old", "next", frames(5));
      const { firsts } = await store.commit({
        deletes: ["next"],
        items: [{ tape: "new", counter: "next", items: frames(2) }],
      });
      assert.deepEqual(firsts, [0]);
      assert.equal(await valueOf(store, "next"), "2");
    });

    suite.test(
      "an append whose counter points at a number in use conflicts and leaves the counter unchanged",
      async ({ store }) => {
        await store.commit({ items: [{ tape: "t", first: 3, items: [frame("there")] }], puts: putsOf({ next: "2" }) });
        await rejectsWithConflict("t", store, { items: [{ tape: "t", counter: "next", items: frames(2) }] });
        assert.equal(await valueOf(store, "next"), "2");
        await assertItems(store, "t", 2, [undefined, frame("there"), undefined]);
      },
    );

    suite.test("a counter that is not a number makes only its own commit fail", async ({ store }) => {
      await store.commit({ puts: [{ key: "next", value: '{"not":"a number"}' }] });
      const rejected = store.commit({
        items: [{ tape: "t", counter: "next", items: frames(1) }],
        puts: [{ key: "a", value: "1" }],
      });
      const fine = store.commit({ puts: [{ key: "b", value: "1" }] });
      await rejectsWith("DAMAGED", rejected);
      await fine;
      assert.deepEqual([await valueOf(store, "a"), await valueOf(store, "b")], [undefined, "1"]);
    });

    suite.test("concurrent appends are numbered in call order, without gaps", async ({ store }) => {
      const results = await Promise.all(
        Array.from({ length: 300 }, (_, n) => appendItems(store, "t", "next", [frame(n), frame(-n)])),
      );
      assert.deepEqual(
        results.map(({ firsts }) => firsts[0]),
        results.map((_, n) => 2 * n),
      );
      const expected = results.flatMap((_, n) => [frame(n), frame(-n)]);
      await assertItems(store, "t", 0, expected);
    });

    suite.test("numbers of freed items are not assigned again", async ({ store }) => {
      await appendItems(store, "t", "next", frames(10));
      await store.retain("t", [], { below: 10, repack: true });
      const { firsts } = await appendItems(store, "t", "next", frames(1));
      assert.deepEqual(firsts, [10]);
    });

    suite.testDurable("numbering continues after the store is reopened", async ({ store, reopen }) => {
      await appendItems(store, "t", "next", frames(3));
      await store.close();
      const again = await reopen();
      const { firsts } = await appendItems(again, "t", "next", frames(1));
      assert.deepEqual(firsts, [3]);
    });

    suite.testShared("appends through two handles never get the same numbers", async ({ store }, second) => {
      const appends = Array.from({ length: 100 }, (_, n) =>
        (n % 2 ? store : second).commit({ items: [{ tape: "t", counter: "next", items: [frame(n)] }] }),
      );
      const numbers = (await Promise.all(appends)).map(({ firsts }) => firsts[0] as number);
      assert.equal(new Set(numbers).size, 100);
      const items = await store.items([{ tape: "t", start: 0, count: 100 }]);
      for (const [n, number] of numbers.entries()) {
        const item = items[number];
        assert.ok(item && !isUnreadable(item), `Item ${number} is missing.`);
        assert.equal(item.json, String(n));
      }
    });
  });
}
