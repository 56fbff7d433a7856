/** Capabilities and reopening: a durable store has the same content when it is opened again. */
import assert from "node:assert/strict";
import { assertSame } from "../assertions.js";
import { blobOf, bytesOf, contentOf, EVERYTHING, frame, putsOf, sha256 } from "../samples.js";
import type { Suite } from "../suite.js";

export function reopenSpec(suite: Suite): void {
  suite.describe("capabilities", () => {
    suite.test("the capabilities of a store match its harness", async ({ store }) => {
      const { durable, shared } = store.capabilities;
      assert.equal(durable, suite.isReopenable, "A store is durable if, and only if, its harness has reopen().");
      if (shared) assert.ok(durable, "A shared store must be durable.");
    });

    suite.test("a store has a URL", async ({ store }) => {
      assert.match(store.url, /^[a-z][a-z0-9+.-]*:/);
    });

    suite.test("the size of a store grows with its content", async ({ store }) => {
      const bytes = bytesOf(1_000_000);
      const before = await store.bytes();
      await store.commit({ blobs: [{ hash: sha256(bytes), bytes }] });
      assert.ok((await store.bytes()) - before > 500_000);
    });

    suite.test("a fresh store is empty", async ({ store }) => {
      assert.deepEqual(await contentOf(store), { records: [], tapes: {}, refs: {}, blobs: {} });
    });
  });

  suite.describe("reopening", () => {
    if (!suite.isReopenable) {
      suite.test("a store that cannot be reopened is neither durable nor shared", async ({ store }) => {
        assert.deepEqual(store.capabilities, { durable: false, shared: false });
      });
    }

    suite.testDurable("a reopened store has exactly the same content", async ({ store, reopen }) => {
      const large = bytesOf(1_500_000);
      for (let n = 0; n < 130; n++) {
        const value = JSON.stringify({ n, text: "\u0000\ud800é" });
        const item = frame("é\u{1f600}".repeat(n), n % 5 ? "" : "0+1");
        await store.commit({
          puts: [{ key: `k/${n}/é\u{1f600}`, value, refs: n % 2 ? "" : `${n}+1` }],
          items: [{ tape: `t/${n % 2}`, counter: `next/${n % 2}`, items: [item] }],
        });
      }
      await store.commit({
        deletes: [{ from: "k/1", to: "k/2" }],
        blobs: [blobOf("small"), { hash: sha256(large), bytes: large }],
      });
      const before = await contentOf(store);
      await store.close();
      const again = await reopen();
      assertSame(await contentOf(again), before, "The content");
      await again.close();
      assertSame(await contentOf(await reopen()), before, "The content");
    });

    suite.testDurable("an empty store is empty after it is reopened", async ({ store, reopen }) => {
      await store.close();
      assert.deepEqual(await (await reopen()).list(EVERYTHING, { limit: 1 }), []);
    });

    suite.testDurable(
      "rejected, deleted and freed data does not reappear after a reopen",
      async ({ store, reopen }) => {
        const blob = blobOf("gone");
        await store.commit({
          puts: putsOf({ gone: "1", stays: "1" }),
          items: [{ tape: "t", first: 0, items: [frame(0), frame(1)] }],
          blobs: [blob],
        });
        await assert.rejects(store.commit({ checks: [{ key: "x", exists: true }], puts: putsOf({ never: "1" }) }));
        await store.commit({ deletes: ["gone"] });
        await store.retain("t", [], { below: 2 });
        await store.dropBlobs([blob.hash], { unusedSince: Number.MAX_SAFE_INTEGER });
        await store.close();
        const records = [{ key: "stays", value: "1", refs: "" }];
        assert.deepEqual(await contentOf(await reopen()), { records, tapes: {}, refs: {}, blobs: {} });
      },
    );

    suite.testDurable("the last use of a blob is remembered after a reopen", async ({ store, reopen }) => {
      const blob = blobOf("used");
      await store.commit({ blobs: [blob] });
      const before = (await store.now()) - 3_600_000;
      await store.close();
      const again = await reopen();
      assert.equal((await again.dropBlobs([blob.hash], { unusedSince: before })).items, 0);
      assert.equal((await again.dropBlobs([blob.hash], { unusedSince: before + 7_200_000 })).items, 1);
    });

    suite.testShared(
      "a shared store can be opened twice; any other store rejects the second open with BUSY",
      async ({ store }, second) => {
        await second.commit({ puts: [{ key: "k", value: "1" }] });
        assert.deepEqual(await store.get(["k"]), [{ key: "k", value: "1", refs: "" }]);
      },
    );
  });
}
