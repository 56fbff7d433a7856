/** What is durable is there when the store is opened again; what is not says so. */
import assert from "node:assert/strict";
import { assertSame } from "../assertions.js";
import { blobOf, bytesOf, contentOf, EVERYTHING, frame, sha256 } from "../samples.js";
import type { Suite } from "../suite.js";

export function reopenSpec(suite: Suite): void {
  suite.describe("capabilities", () => {
    suite.test("a store promises what its harness can show", async ({ store }) => {
      const { durable, shared } = store.capabilities;
      assert.equal(durable, suite.isReopenable, "A store is durable if, and only if, its harness has reopen().");
      if (shared) assert.ok(durable, "Only what is durable can be shared by processes.");
    });

    suite.test("a store says where it is", async ({ store }) => {
      assert.match(store.url, /^[a-z][a-z0-9+.-]*:/);
    });

    suite.test("a store takes more bytes the more it holds", async ({ store }) => {
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
      suite.test("the store does not promise to outlive its process", async ({ store }) => {
        assert.deepEqual(store.capabilities, { durable: false, shared: false });
      });
    }

    suite.testDurable("everything is there, to the byte", async ({ store, reopen }) => {
      const large = bytesOf(1_500_000);
      for (let n = 0; n < 130; n++) {
        await store.commit({
          puts: [
            {
              key: `k/${n}/é\u{1f600}`,
              value: JSON.stringify({ n, text: "\u0000\ud800é" }),
              refs: n % 2 ? "" : `${n}+1`,
            },
          ],
          items: [
            {
              tape: `t/${n % 2}`,
              counter: `next/${n % 2}`,
              items: [frame("é\u{1f600}".repeat(n), n % 5 ? "" : "0+1")],
            },
          ],
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

    suite.testDurable("an empty store stays empty", async ({ store, reopen }) => {
      await store.close();
      assert.deepEqual(await (await reopen()).list(EVERYTHING, { limit: 1 }), []);
    });

    suite.testDurable("what was refused, deleted or freed does not come back", async ({ store, reopen }) => {
      const blob = blobOf("gone");
      await store.commit({
        puts: [
          { key: "gone", value: "1" },
          { key: "stays", value: "1" },
        ],
        items: [{ tape: "t", first: 0, items: [frame(0), frame(1)] }],
        blobs: [blob],
      });
      await assert.rejects(
        store.commit({ checks: [{ key: "x", exists: true }], puts: [{ key: "never", value: "1" }] }),
      );
      await store.commit({ deletes: ["gone"] });
      await store.retain("t", [], { below: 2 });
      await store.dropBlobs([blob.hash], { unusedSince: Number.MAX_SAFE_INTEGER });
      await store.close();
      const content = await contentOf(await reopen());
      assert.deepEqual(content, { records: [{ key: "stays", value: "1", refs: "" }], tapes: {}, refs: {}, blobs: {} });
    });

    suite.testDurable("a blob's last use is remembered", async ({ store, reopen }) => {
      const blob = blobOf("used");
      await store.commit({ blobs: [blob] });
      const before = (await store.now()) - 3_600_000;
      await store.close();
      const again = await reopen();
      assert.equal((await again.dropBlobs([blob.hash], { unusedSince: before })).items, 0);
      assert.equal((await again.dropBlobs([blob.hash], { unusedSince: before + 7_200_000 })).items, 1);
    });

    suite.testShared("a store may be opened while it is open, or says BUSY", async ({ store }, second) => {
      await second.commit({ puts: [{ key: "k", value: "1" }] });
      assert.deepEqual(await store.get(["k"]), [{ key: "k", value: "1", refs: "" }]);
    });
  });
}
