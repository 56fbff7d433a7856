/** The size of ranges. It depends on how a store packs its data, so no test expects exact numbers. */
import assert from "node:assert/strict";
import type { Frame, KeyRange, Store } from "../../store/index.js";
import { bytesOf, EVERYTHING, frame, putsOf, sha256, swap } from "../samples.js";
import type { Suite } from "../suite.js";

const A: KeyRange = { from: "a/", to: "a0" };
const B: KeyRange = { from: "b/", to: "b0" };
const ALL = { records: [EVERYTHING], tapes: [EVERYTHING] };

export function bytesSpec(suite: Suite): void {
  suite.describe("size of ranges", () => {
    suite.test("an empty store, no ranges and empty ranges have a size of 0", async ({ store }) => {
      assert.equal(await store.bytesOf(ALL), 0);
      await store.commit({ puts: putsOf({ "a/1": "x" }), items: [{ tape: "a/1", first: 0, items: [frame("x")] }] });
      assert.equal(await store.bytesOf({ records: [], tapes: [] }), 0);
      assert.equal(await store.bytesOf({ records: [B], tapes: [B] }), 0);
      assert.equal(await store.bytesOf({ records: [{ from: "b", to: "a" }], tapes: [{ from: "b", to: "a" }] }), 0);
    });

    suite.test("the size of a range is about the length of its records and items", async ({ store }) => {
      await store.commit({
        puts: [
          { key: "a/1", value: noise(40_000, 1), refs: noise(1_000, 2) },
          { key: "b/1", value: noise(10_000, 3) },
        ],
        items: [
          { tape: "a/2", first: 0, items: [noiseFrame(20_000, 4), noiseFrame(20_000, 5)] },
          { tape: "b/2", first: 7, items: [noiseFrame(5_000, 6)] },
        ],
      });
      await assertAbout(store, { records: [A], tapes: [] }, 41_000);
      await assertAbout(store, { records: [B], tapes: [] }, 10_000);
      await assertAbout(store, { records: [], tapes: [A] }, 40_000);
      await assertAbout(store, { records: [], tapes: [B] }, 5_000);
      await assertAbout(store, { records: [A, B], tapes: [B, A] }, 96_000);
      assert.ok((await store.bytesOf(ALL)) >= (await store.bytesOf({ records: [A, B], tapes: [A, B] })));
    });

    suite.test("blobs are not counted in the size of a range", async ({ store }) => {
      const bytes = bytesOf(50_000);
      await store.commit({ blobs: [{ hash: sha256(bytes), bytes }] });
      assert.equal(await store.bytesOf(ALL), 0);
    });

    suite.test("a commit is counted in the size as soon as it has resolved", async ({ store }) => {
      await store.commit({ puts: [{ key: "a/head", value: "0" }] });
      for (let n = 0; n < 20; n++) {
        const items = [{ tape: "a/t", first: n, items: [noiseFrame(1_000, n)] }];
        await store.commit({ ...swap("a/head", String(n), String(n + 1)), items });
      }
      await assertAbout(store, { records: [], tapes: [A] }, 20_000);
      await store.compact();
      await assertAbout(store, { records: [], tapes: [A] }, 20_000);
    });

    suite.test("deleted records and freed items are not counted in the size", async ({ store }) => {
      await store.commit({
        puts: [{ key: "a/1", value: noise(10_000, 1) }],
        items: [{ tape: "a/1", first: 0, items: [noiseFrame(10_000, 2)] }],
      });
      await store.commit({ deletes: [A] });
      await assertAbout(store, ALL, 10_000);
      await store.retain("a/1", [], { below: 1 });
      assert.equal(await store.bytesOf(ALL), 0);
    });

    suite.testShared("commits of another handle are counted in the size", async ({ store }, second) => {
      await second.commit({ puts: [{ key: "a/1", value: noise(10_000, 1) }] });
      await assertAbout(store, { records: [A], tapes: [] }, 10_000);
    });
  });
}

/** Asserts a size between half and twice of `expected`: stores add checksums, and some compress. */
async function assertAbout(store: Store, ranges: Parameters<Store["bytesOf"]>[0], expected: number): Promise<void> {
  const bytes = await store.bytesOf(ranges);
  assert.ok(bytes >= expected / 2 && bytes <= expected * 2, `Expected about ${expected} bytes, got ${bytes}.`);
}

/** A string that cannot be compressed much. */
function noise(length: number, seed: number): string {
  return Buffer.from(bytesOf(length, seed)).toString("base64").slice(0, length);
}

function noiseFrame(length: number, seed: number): Frame {
  return frame(noise(length, seed));
}
