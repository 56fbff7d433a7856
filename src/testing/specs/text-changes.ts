/** Changes of records since they were marked as indexed. */
import assert from "node:assert/strict";
import { prefixRange } from "../../store/index.js";
import { valueOf } from "../assertions.js";
import { EVERYTHING, keysOf, swap } from "../samples.js";
import type { Suite } from "../suite.js";
import { recordMarks, onlyChange, type OpenTexts, textTest } from "../text-index-helpers.js";

export function textChangesSpec(suite: Suite, open: OpenTexts): void {
  const test = textTest(suite, open);

  suite.describe("changes of records", () => {
    test("a record is reported as changed after it is created, updated or deleted, until it is marked", async (texts, {
      store,
    }) => {
      assert.deepEqual(await texts.changes([EVERYTHING], 10), []);
      await store.commit({ puts: [{ key: "a", value: "1" }] });
      const created = await onlyChange(texts);
      assert.equal(created.key, "a");
      assert.equal(typeof created.sum, "number");
      assert.deepEqual(await texts.changes([EVERYTHING], 10), [created], "The change is not marked yet.");
      await recordMarks(texts, [created]);
      assert.deepEqual(await texts.changes([EVERYTHING], 10), []);

      await store.commit({ puts: [{ key: "a", value: "2" }] });
      const changed = await onlyChange(texts);
      assert.notEqual(changed.sum, created.sum);
      await recordMarks(texts, [changed]);
      await store.commit({ puts: [{ key: "a", value: "2", refs: "0+1" }] });
      await recordMarks(texts, [await onlyChange(texts)]);

      await store.commit({ deletes: ["a"] });
      const gone = await onlyChange(texts);
      assert.deepEqual(gone, { key: "a", sum: undefined });
      await recordMarks(texts, [gone]);
      assert.deepEqual(await texts.changes([EVERYTHING], 10), []);
    });

    test("each of several consecutive commits is reported as a change", async (texts, { store }) => {
      await store.commit({ puts: [{ key: "head", value: "0" }] });
      for (let n = 0; n < 20; n++) {
        const found = await onlyChange(texts);
        await recordMarks(texts, [found]);
        assert.deepEqual(await texts.changes([EVERYTHING], 10), []);
        await store.commit(swap("head", String(n), String(n + 1)));
      }
    });

    test("a commit during a call to changes() is reported by that call or the next one", async (texts, { store }) => {
      await store.commit({ puts: [{ key: "head", value: "0" }] });
      for (let n = 0; n < 20; n++) {
        const save = store.commit(swap("head", String(n), String(n + 1)));
        await recordMarks(texts, await texts.changes([EVERYTHING], 10));
        await texts.changes([EVERYTHING], 10);
        await save;
        await recordMarks(texts, await texts.changes([EVERYTHING], 10));
        assert.equal(await valueOf(store, "head"), String(n + 1));
        assert.deepEqual(await texts.changes([EVERYTHING], 10), []);
      }
    });

    test("a record marked with another checksum than its own is reported as changed", async (texts, { store }) => {
      await store.commit({ puts: [{ key: "a", value: "1" }] });
      const { key, sum } = await onlyChange(texts);
      await store.commit({ puts: [{ key: "a", value: "2" }] });
      await recordMarks(texts, [{ key, sum }]);
      assert.notEqual((await onlyChange(texts)).sum, sum);
    });

    test("changes() reports only the given ranges, up to the limit", async (texts, { store }) => {
      const keys = ["a/1", "a/2", "b/1", "c/1", "c/é", "c/\u{10000}"];
      await store.commit({ puts: keys.map((key) => ({ key, value: key })) });
      const [a, c] = [prefixRange("a/"), prefixRange("c/")];
      assert.deepEqual(keysOf(await texts.changes([a, c], 10)), ["a/1", "a/2", "c/1", "c/é", "c/\u{10000}"]);
      assert.deepEqual(keysOf(await texts.changes([c], 10)), ["c/1", "c/é", "c/\u{10000}"]);
      assert.deepEqual(await texts.changes([], 10), []);
      assert.deepEqual(await texts.changes([a, c], 0), []);
      const reported: string[] = [];
      for (;;) {
        const found = await texts.changes([a, c], 2);
        assert.ok(found.length <= 2);
        if (found.length === 0) break;
        reported.push(...keysOf(found));
        await recordMarks(texts, found);
      }
      assert.deepEqual(reported.sort(), keys.filter((key) => key !== "b/1").sort());
      const unmarked = await texts.changes([EVERYTHING], 10);
      assert.deepEqual(keysOf(unmarked), ["b/1"], "Marks in one range do not affect another.");
      await store.commit({ deletes: [EVERYTHING] });
      assert.equal((await texts.changes([a, c], 3)).length, 3);
      assert.equal((await texts.changes([a, c], 10)).length, 5);
    });

    suite.testDamage("a damaged record can be marked", async ({ store, damage }) => {
      await store.commit({ puts: [{ key: "a", value: "some text" }] });
      await damage({ kind: "record", key: "a" }, "flip");
      const texts = open(store);
      if (!texts) return;
      await recordMarks(texts, [await onlyChange(texts)]);
      assert.deepEqual(await texts.changes([EVERYTHING], 10), []);
    });

    suite.testShared("a commit of another handle is reported as a change", async ({ store }, second) => {
      const texts = open(store);
      if (!texts) return;
      for (let n = 0; n < 3; n++) {
        await second.commit({ puts: [{ key: "a", value: String(n) }] });
        await recordMarks(texts, [await onlyChange(texts)]);
        assert.deepEqual(await texts.changes([EVERYTHING], 10), []);
      }
    });
  });
}
