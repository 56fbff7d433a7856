/** Compaction: it changes how data is packed and nothing that can be read. */
import assert from "node:assert/strict";
import type { Store } from "../../store/index.js";
import { assertSame } from "../assertions.js";
import { blobOf, bytesOf, contentOf, EVERYTHING, frame, sha256 } from "../samples.js";
import type { Suite } from "../suite.js";
import { until } from "./until.js";

export function compactSpec(suite: Suite): void {
  suite.describe("compact", () => {
    suite.test("an empty store can be compacted", async ({ store }) => {
      await store.compact();
      assert.deepEqual(await store.list(EVERYTHING, { limit: 1 }), []);
    });

    suite.test("compaction does not change what is read, also when repeated", async ({ store }) => {
      await fill(store);
      const before = await contentOf(store);
      for (let round = 0; round < 2; round++) {
        await store.compact();
        assertSame(await contentOf(store), before, "The content");
      }
    });

    suite.test("commits during compaction are applied", async ({ store }) => {
      await fill(store);
      const commits = Array.from({ length: 50 }, (_, n) =>
        store.commit({
          items: [{ tape: "t/0", counter: "next/0", items: [frame(`new ${n}`)] }],
          puts: [{ key: `new/${n}`, value: "1" }],
        }),
      );
      await Promise.all([store.compact(), ...commits, store.compact()]);
      assert.equal((await store.list({ from: "new/", to: "new0" }, { limit: 100 })).length, 50);
      const expected = commits.map((_, n) => frame(`new ${n}`));
      assertSame(await store.items([{ tape: "t/0", start: 150, count: 50 }]), expected, "The new items");
    });

    suite.testShared(
      "an idle handle reads the current content after another handle has compacted",
      async ({ store }, second) => {
        await fill(store);
        await contentOf(second);
        await store.commit({ deletes: [{ from: "k/1", to: "k/5" }], puts: [{ key: "k/2", value: "again" }] });
        await store.retain("t/0", [{ start: 10, count: 5 }], { below: 100 });
        await store.dropBlobs(await store.blobs({ after: "", limit: 1 }), { unusedSince: Number.MAX_SAFE_INTEGER });
        for (let round = 0; round < 2; round++) await store.compact();
        assertSame(await contentOf(second), await contentOf(store), "The content");
      },
    );

    suite.test("compaction returns the space of deleted data", async ({ store }) => {
      const blob = bytesOf(2_000_000);
      await store.commit({
        puts: [{ key: "large", value: "x".repeat(1_000_000) }],
        items: [{ tape: "t", first: 0, items: [frame("x".repeat(2_000_000))] }],
        blobs: [{ hash: sha256(blob), bytes: blob }],
      });
      await store.compact();
      const full = await store.bytes();
      assert.ok(full > 0);
      await store.commit({ deletes: ["large"] });
      await store.retain("t", [], { below: 1 });
      await store.dropBlobs([sha256(blob)], { unusedSince: Number.MAX_SAFE_INTEGER });
      // A shared database keeps deleted data until transactions of other users that could read it have ended.
      let size = full;
      await until(
        async () => {
          await store.compact();
          size = await store.bytes();
          return size < full / 2;
        },
        () => `compaction to return the space: ${full} bytes became ${size}`,
      );
    });

    suite.test("scrubbing removes deleted data, and changes nothing that is read", async ({ store }) => {
      if (!store.scrub) return;
      await fill(store);
      await store.commit({ deletes: [{ from: "k/1", to: "k/5" }] });
      await store.retain("t/0", [{ start: 10, count: 5 }], { below: 100 });
      const before = await contentOf(store);
      for (let round = 0; round < 2; round++) {
        await store.compact();
        assert.equal((await store.scrub()).pending, undefined);
        assertSame(await contentOf(store), before, "The content");
      }
    });

    suite.test("commits while the store is scrubbed are applied", async ({ store }) => {
      if (!store.scrub) return;
      await fill(store);
      const commits = Array.from({ length: 50 }, (_, n) => store.commit({ puts: [{ key: `new/${n}`, value: "1" }] }));
      await Promise.all([store.scrub(), ...commits]);
      assert.equal((await store.list({ from: "new/", to: "new0" }, { limit: 100 })).length, 50);
    });

    suite.testDurable("compacted content is intact after the store is reopened", async ({ store, reopen }) => {
      await fill(store);
      const before = await contentOf(store);
      await store.compact();
      await store.close();
      assertSame(await contentOf(await reopen()), before, "The content");
    });

    suite.testShared("two handles may compact concurrently", async ({ store }, second) => {
      await fill(store);
      const before = await contentOf(store);
      await Promise.all([store.compact(), second.compact()]);
      assertSame(await contentOf(store), before, "The content");
      assertSame(await contentOf(second), before, "The content");
    });
  });
}

/** Commits tapes of small batches and gaps, records and blobs. */
async function fill(store: Store): Promise<void> {
  const commits: Promise<unknown>[] = [];
  for (let n = 0; n < 150; n++) {
    commits.push(
      store.commit({
        puts: [{ key: `k/${n % 40}`, value: String(n), refs: `${n}+1` }],
        items: [
          { tape: "t/0", counter: "next/0", items: [frame({ n }, n % 4 ? "" : `${n}+1`)] },
          { tape: "t/1", first: 2 * n, items: [frame("x".repeat(n * 20))] },
        ],
        blobs: n % 50 ? [] : [blobOf(`blob ${n}`)],
      }),
    );
  }
  await Promise.all(commits);
}
