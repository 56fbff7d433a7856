/** Text indexes of durable stores: they survive a reopen and can be used by several handles. */
import assert from "node:assert/strict";
import { EVERYTHING } from "../samples.js";
import type { Suite } from "../suite.js";
import { addSource, assertFound, findDocuments, recordMarks, onlyChange, sourceOf } from "../text-index-helpers.js";

export function textSharingSpec(suite: Suite): void {
  if (!suite.isReopenable) return;
  suite.describe("durable text index", () => {
    suite.testDurable("the text index is intact after the store is reopened", async ({ store, reopen }) => {
      if (!store.texts) return;
      await store.commit({ puts: [{ key: "k", value: "1" }] });
      await recordMarks(store.texts, [await onlyChange(store.texts)]);
      await addSource(store.texts, "s", ["some text", "another text"]);
      await store.close();
      const { texts } = await reopen();
      assert.ok(texts);
      assert.deepEqual(await texts.changes([EVERYTHING], 10), []);
      await assertFound(texts, { text: ["s/0", "s/1"], another: ["s/1"] });
    });

    suite.testShared("of two concurrent updates of a source, exactly one is applied", async ({ store }, second) => {
      if (!store.texts || !second.texts) return;
      await addSource(store.texts, "s", ["zero"]);
      for (let n = 1; n < 10; n++) {
        const before = await sourceOf(store.texts, "s");
        assert.deepEqual(await sourceOf(second.texts, "s"), before);
        const update = { name: "s", before, from: n, texts: [`number ${n}`], note: String(n) };
        const updates: Promise<boolean>[] = [store.texts, second.texts].map((texts) =>
          texts.update({ sources: [update], marks: [] }),
        );
        assert.equal((await Promise.all(updates)).filter(Boolean).length, 1);
      }
      assert.equal((await findDocuments(store.texts, "number")).length, 9);
      assert.equal((await findDocuments(second.texts, "number")).length, 9);
    });

    suite.testShared("a handle notices that another handle has cleared the text index", async ({ store }, second) => {
      if (!store.texts || !second.texts) return;
      await store.commit({ puts: [{ key: "k", value: "1" }] });
      await recordMarks(store.texts, [await onlyChange(store.texts)]);
      await addSource(store.texts, "s", ["some text"]);
      assert.deepEqual(await store.texts.changes([EVERYTHING], 10), []);
      await second.texts.clear();
      assert.equal((await onlyChange(store.texts)).key, "k");
      assert.deepEqual(await findDocuments(store.texts, "text"), []);
      await addSource(store.texts, "s", ["some text"]);
      await assertFound(second.texts, { text: ["s/0"] });
    });
  });
}
