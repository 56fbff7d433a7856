/** Atomicity: a commit is applied entirely or not at all. */
import assert from "node:assert/strict";
import type { Commit, Store } from "../../store/index.js";
import { assertApplied, assertItems, rejectsWith, valueOf } from "../assertions.js";
import { blobOf, contentOf, frame, frames, putsOf, sha256 } from "../samples.js";
import type { Suite } from "../suite.js";

export function atomicitySpec(suite: Suite): void {
  suite.describe("atomicity", () => {
    const reasons: Record<string, Commit> = {
      "a failed check": { checks: [{ key: "head", value: "stale" }] },
      "a notBefore in the future": { notBefore: Date.UTC(2200, 0) },
      "a use of a missing blob": { blobs: [{ hash: sha256(new Uint8Array(1)) }] },
      "an item number that is in use": { items: [{ tape: "t", first: 4, items: frames(1) }] },
      "a counter that points at a number in use": { items: [{ tape: "t", counter: "low", items: frames(3) }] },
    };
    for (const [reason, failing] of Object.entries(reasons)) {
      suite.test(`a commit rejected for ${reason} writes nothing`, async ({ store }) => {
        await fill(store);
        const before = await contentOf(store);
        await rejectsWith("CONFLICT", store.commit(withWrites(failing)));
        assert.deepEqual(await contentOf(store), before);
        // Again, between commits that are applied.
        const commits: Commit[] = [
          { puts: putsOf({ before: "1" }) },
          withWrites(failing),
          { puts: putsOf({ after: "1" }), items: [{ tape: "u", counter: "next", items: frames(1) }] },
        ];
        await assertApplied(store, commits, [true, false, true]);
        await store.commit({ deletes: ["before", "after"], puts: [{ key: "next", value: "2" }] });
        await assertItems(store, "u", 0, [...frames(2), frames(1)[0], undefined]);
        const after = await contentOf(store);
        assert.deepEqual({ ...after, tapes: after.tapes["t"] }, { ...before, tapes: before.tapes["t"] });
      });
    }

    suite.test("a rejected commit succeeds once the reason for the conflict is removed", async ({ store }) => {
      await fill(store);
      const commit = withWrites({ checks: [{ key: "head", value: "2" }] });
      await rejectsWith("CONFLICT", store.commit(commit));
      await store.commit({ puts: [{ key: "head", value: "2" }] });
      await store.commit(commit);
      assert.equal(await valueOf(store, "head"), "9");
      assert.equal(await valueOf(store, "kept"), undefined);
      await assertItems(store, "t", 20, frames(2, 20));
    });
  });
}

async function fill(store: Store): Promise<void> {
  await store.commit({
    puts: [{ key: "head", value: "1", refs: "0+5" }, ...putsOf({ kept: "1", low: "1" })],
    items: [
      { tape: "t", first: 2, items: frames(5, 2) },
      { tape: "u", counter: "next", items: frames(2) },
    ],
    blobs: [blobOf("kept")],
  });
}

/** A commit that writes all kinds of data, before and after the part that makes it fail. */
function withWrites(failing: Commit): Commit {
  return {
    ...failing,
    deletes: ["kept", { from: "l", to: "m" }],
    puts: [
      { key: "head", value: "9" },
      { key: "new", value: "1", ifAbsent: true },
    ],
    items: [
      { tape: "t", first: 20, items: frames(2, 20) },
      { tape: "v", first: 0, items: [frame("v", "0+1")] },
      { tape: "u", counter: "next", items: frames(3) },
      ...(failing.items ?? []),
      { tape: "w", counter: "fresh", items: frames(1) },
    ],
    blobs: [blobOf("new"), ...(failing.blobs ?? [])],
  };
}
