/** Order: commits of one handle are applied in call order, and a read sees all resolved commits. */
import assert from "node:assert/strict";
import type { Commit } from "../../store/index.js";
import { assertItems, getOne, isUnreadable, valueOf } from "../assertions.js";
import { blobOf, EVERYTHING, frame, keysOf, swap } from "../samples.js";
import type { Suite } from "../suite.js";

/** Commit `n` of a series in which each commit replaces the value of the previous one. */
const step = (n: number): Commit => swap("head", n === 0 ? undefined : String(n - 1), String(n));

export function orderSpec(suite: Suite): void {
  suite.describe("order", () => {
    suite.test("commits that are not awaited are applied in call order", async ({ store }) => {
      const commits: Promise<unknown>[] = [];
      for (let n = 0; n < 1_000; n++) {
        commits.push(store.commit({ ...step(n), items: [{ tape: "t", first: n, items: [frame(n)] }] }));
      }
      await Promise.all(commits);
      assert.equal(await valueOf(store, "head"), "999");
      const expected = Array.from({ length: 1_000 }, (_, n) => frame(n));
      await assertItems(store, "t", 0, expected);
    });

    suite.test("commits resolve in call order", async ({ store }) => {
      const resolved: number[] = [];
      const commits = Array.from({ length: 50 }, (_, n) =>
        store.commit({ puts: [{ key: "k", value: String(n) }] }).then(() => resolved.push(n)),
      );
      await Promise.all(commits);
      assert.deepEqual(
        resolved,
        resolved.map((_, n) => n),
      );
    });

    suite.test("commits of different turns of the event loop are applied in call order", async ({ store }) => {
      const commits: Promise<unknown>[] = [];
      for (let n = 0; n < 60; n++) {
        commits.push(store.commit(step(n)));
        if (n % 7 === 0) await new Promise((resolve) => setImmediate(resolve));
      }
      await Promise.all(commits);
      assert.equal(await valueOf(store, "head"), "59");
    });

    suite.test("every kind of read sees a resolved commit", async ({ store }) => {
      for (let n = 0; n < 30; n++) {
        const [key, tape, blob] = [`k${String(n).padStart(2, "0")}`, `t${n}`, blobOf(`blob ${n}`)];
        await store.commit({
          puts: [{ key, value: String(n) }],
          items: [{ tape, first: 0, items: [frame(n, "0+1")] }],
          blobs: [blob],
        });
        assert.equal(await valueOf(store, key), String(n));
        assert.deepEqual(keysOf(await store.list(EVERYTHING, { limit: 1, reverse: true })), [key]);
        await assertItems(store, tape, 0, [frame(n, "0+1")]);
        assert.deepEqual(await store.itemRefs({ tape, start: 0, count: 1 }), [{ item: 0, refs: "0+1" }]);
        assert.equal((await store.tapes(EVERYTHING)).length, n + 1);
        assert.ok(!isUnreadable(await store.blob(blob.hash)));
        assert.equal((await store.blobs({ after: "", limit: 100 })).length, n + 1);
      }
    });

    suite.testShared("a read sees resolved commits of another handle", async ({ store }, second) => {
      for (let n = 0; n < 30; n++) {
        const [writer, reader] = n % 2 ? [store, second] : [second, store];
        await writer.commit({ puts: [{ key: "k", value: String(n) }] });
        assert.deepEqual(await getOne(reader, "k"), { key: "k", value: String(n), refs: "" });
      }
    });
  });
}
