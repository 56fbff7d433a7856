/** Closing: what was committed before is kept, and nothing works afterwards. */
import assert from "node:assert/strict";
import { isSavepointError } from "../../errors.js";
import type { Store, TextIndex } from "../../store/index.js";
import { rejectsWith, valueOf } from "../assertions.js";
import { EVERYTHING, frame, frames } from "../samples.js";
import type { Suite } from "../suite.js";

export function closeSpec(suite: Suite): void {
  suite.describe("close", () => {
    suite.test("everything fails with CLOSED afterwards", async ({ store }) => {
      await store.commit({ puts: [{ key: "k", value: "1" }] });
      await store.close();
      for (const use of Object.values(uses(store))) await rejectsWith("CLOSED", use());
    });

    suite.test("everything fails with CLOSED from the moment that close was called", async ({ store }) => {
      const commit = store.commit({ puts: [{ key: "k", value: "1" }] });
      const closing = store.close();
      await Promise.all(Object.values(uses(store)).map((use) => rejectsWith("CLOSED", use())));
      await Promise.all([commit, closing]);
    });

    suite.test("closing again does nothing, also while it is being closed", async ({ store }) => {
      await Promise.all([store.close(), store.close()]);
      await store.close();
      await store[Symbol.asyncDispose]();
    });

    suite.test("a store can be disposed of", async ({ store }) => {
      await store[Symbol.asyncDispose]();
      await rejectsWith("CLOSED", store.get(["k"]));
    });

    suite.test("what still runs when it is closed is finished, or fails with CLOSED", async ({ store }) => {
      for (let first = 0; first < 300; first += 3) {
        await store.commit({ items: [{ tape: "t", first, items: frames(3, first) }] });
      }
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

    suite.testDurable("commits before it are durable, although nobody awaited them", async ({ store, reopen }) => {
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
    });

    suite.testShared("closing one handle leaves the other alone", async ({ store }, second) => {
      await store.commit({ puts: [{ key: "k", value: "1" }] });
      await store.close();
      assert.equal(await valueOf(second, "k"), "1");
      await second.commit({ puts: [{ key: "k", value: "2" }] });
      assert.equal(await valueOf(second, "k"), "2");
    });
  });
}

/** Every member that does something. */
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
