/** Closing: earlier commits are kept, and later calls are rejected with `CLOSED`. */
import assert from "node:assert/strict";
import { isSavepointError } from "../../errors.js";
import type { Store, TextIndex } from "../../store/index.js";
import { rejectsWith, valueOf } from "../assertions.js";
import { EVERYTHING, frame, frames, writeItems } from "../samples.js";
import type { Suite } from "../suite.js";

export function closeSpec(suite: Suite): void {
  suite.describe("close", () => {
    suite.test("every method rejects with CLOSED after close()", async ({ store }) => {
      await store.commit({ puts: [{ key: "k", value: "1" }] });
      await store.close();
      for (const use of Object.values(uses(store))) await rejectsWith("CLOSED", use());
    });

    suite.test("every method rejects with CLOSED as soon as close() is called", async ({ store }) => {
      const commit = store.commit({ puts: [{ key: "k", value: "1" }] });
      const closing = store.close();
      await Promise.all(Object.values(uses(store)).map((use) => rejectsWith("CLOSED", use())));
      await Promise.all([commit, closing]);
    });

    suite.test("close() can be called repeatedly and concurrently", async ({ store }) => {
      await Promise.all([store.close(), store.close()]);
      await store.close();
      await store[Symbol.asyncDispose]();
    });

    suite.test("disposing of a store closes it", async ({ store }) => {
      await store[Symbol.asyncDispose]();
      await rejectsWith("CLOSED", store.get(["k"]));
    });

    suite.test("maintenance that runs during close() finishes or rejects with CLOSED", async ({ store }) => {
      for (let first = 0; first < 300; first += 3) await writeItems(store, "t", first, frames(3, first));
      const running = [
        store.compact(),
        store.retain("t", [{ start: 9, count: 9 }], { below: 200, repack: true }),
        store.compact(),
      ];
      const closing = store.close();
      for (const outcome of await Promise.allSettled(running)) {
        if (outcome.status === "rejected")
          assert.ok(isSavepointError(outcome.reason, "CLOSED"), String(outcome.reason));
      }
      await closing;
    });

    suite.testDurable(
      "commits called before close() are durable even if they were not awaited",
      async ({ store, reopen }) => {
        const commits = Array.from({ length: 500 }, (_, n) =>
          store.commit({ puts: [{ key: `k${n}`, value: "1" }], items: [{ tape: "t", first: n, items: [frame(n)] }] }),
        );
        await store.close();
        const again = await reopen();
        assert.equal((await again.list(EVERYTHING, { limit: 1_000 })).length, 500);
        assert.deepEqual(
          await again.items([{ tape: "t", start: 0, count: 500 }]),
          commits.map((_, n) => frame(n)),
        );
        await Promise.all(commits);
      },
    );

    suite.testShared("closing one handle does not affect another one", async ({ store }, second) => {
      await store.commit({ puts: [{ key: "k", value: "1" }] });
      await store.close();
      assert.equal(await valueOf(second, "k"), "1");
      await second.commit({ puts: [{ key: "k", value: "2" }] });
      assert.equal(await valueOf(second, "k"), "2");
    });
  });
}

/** Calls of all methods. */
function uses(store: Store): Record<string, () => Promise<unknown>> {
  return {
    get: () => store.get(["k"]),
    list: () => store.list(EVERYTHING, { limit: 1 }),
    items: () => store.items([{ tape: "t", start: 0, count: 1 }]),
    blob: () => store.blob("00"),
    commit: () => store.commit({}),
    now: () => store.now(),
    itemRefs: () => store.itemRefs({ tape: "t", start: 0, count: 1 }),
    tapes: () => store.tapes(EVERYTHING),
    retain: () => store.retain("t", [], { below: 1 }),
    heal: () => store.heal("t", new Map()),
    blobs: () => store.blobs({ after: "", limit: 1 }),
    dropBlobs: () => store.dropBlobs([], { unusedSince: 0 }),
    compact: () => store.compact(),
    ...(store.scrub && { scrub: () => (store.scrub as () => Promise<unknown>)() }),
    bytes: () => store.bytes(),
    bytesOf: () => store.bytesOf({ records: [], tapes: [] }),
    ...(store.texts ? textUses(store.texts) : {}),
  };
}

function textUses(texts: TextIndex): Record<string, () => Promise<unknown>> {
  return {
    changes: () => texts.changes([EVERYTHING], 1),
    sources: () => texts.sources(["s"]),
    sourcesById: () => texts.sourcesById([1]),
    update: () => texts.update({ sources: [], marks: [] }),
    find: () => texts.find("text", { below: 1, limit: 1 }),
    clear: () => texts.clear(),
  };
}
