/** Damage: damaged data is never returned as good, and intact data stays readable. */
import assert from "node:assert/strict";
import type { Store } from "../../store/index.js";
import {
  assertItems,
  assertUnreadable,
  rejectsWithConflict,
  getOne,
  isUnreadable,
  rejectsWith,
  valueOf,
} from "../assertions.js";
import type { Damage } from "../harness.js";
import { appendItems, blobOf, EVERYTHING, frame, frames, keysOf, putsOf, writeItems } from "../samples.js";
import type { Suite } from "../suite.js";

const KINDS: readonly Damage[] = ["flip", "truncate", "remove"];
const TEXT = "a string with é, \u{1f600} and many letters, so that half of it is still a string";
const VICTIM = frame({ text: TEXT }, "0+1;2:5+3");
const BLOB = blobOf(TEXT);

export function corruptionSpec(suite: Suite): void {
  suite.describe("damage", () => {
    if (!suite.isDamageable) {
      suite.test("a durable store has a harness that can damage it", async ({ store }) => {
        assert.equal(store.capabilities.durable, false);
      });
    }

    for (const how of KINDS) {
      suite.testDamage(
        `a damaged record (${how}) is unreadable, fails every check on its value and can be overwritten`,
        async ({ store, damage }) => {
          await fill(store);
          await damage({ kind: "record", key: "k/2" }, how);
          const record = await getOne(store, "k/2");
          const listed = await store.list({ from: "k/", to: "k0" }, { limit: 10 });
          // A store may or may not notice that a record is missing.
          if (how === "remove" && record === undefined) assert.deepEqual(keysOf(listed), ["k/1", "k/3"]);
          else {
            assertUnreadable(record);
            assert.equal(record?.key, "k/2");
            assert.deepEqual(keysOf(listed), ["k/1", "k/2", "k/3"]);
            assertUnreadable(listed[1]);
          }
          assert.deepEqual([await valueOf(store, "k/1"), await valueOf(store, "k/3")], [TEXT, TEXT]);
          assert.deepEqual(listed[0], { key: "k/1", value: TEXT, refs: "0+1" });
          assert.deepEqual(listed.at(-1), { key: "k/3", value: TEXT, refs: "0+1" });
          await rejectsWithConflict("k/2", store, {
            checks: [{ key: "k/2", value: TEXT }],
            puts: putsOf({ new: "1" }),
          });
          if (how !== "remove") await rejectsWithConflict("k/2", store, { checks: [{ key: "k/2", value: undefined }] });
          // A check on the damaged value fails as well.
          const guesses = damagedForms(TEXT).map((value) => store.commit({ checks: [{ key: "k/2", value }] }));
          await Promise.all(guesses.map((guess) => rejectsWith("CONFLICT", guess)));
          assert.equal(await valueOf(store, "new"), undefined);
          await assertOthersReadable(store);
          await store.commit({ puts: [{ key: "k/2", value: "repaired" }] });
          assert.equal(await valueOf(store, "k/2"), "repaired");
        },
      );

      suite.testDamage(
        `a damaged item (${how}) is unreadable and its neighbours are not`,
        async ({ store, damage }) => {
          await fill(store);
          await damage({ kind: "item", tape: "t", item: 1 }, how);
          await assertItems(store, "t", 0, [frame(0), undefined, frame(2)]);
          await assertItems(store, "t", 1, [undefined]);
          const refs = await store.itemRefs({ tape: "t", start: 0, count: 3 });
          if (how === "remove") assert.ok(isUnreadable(refs) || refs.length === 0);
          else assert.ok(isUnreadable(refs) || (refs.length === 1 && refs[0]?.refs === VICTIM.refs));
          await assertOthersReadable(store);
        },
      );

      suite.testDamage(
        `a damaged item (${how}) stays unreadable, and its neighbours readable, after packing`,
        async ({ store, damage }) => {
          await fill(store);
          await damage({ kind: "item", tape: "t", item: 1 }, how);
          for (let first = 3; first < 150; first += 3) await writeItems(store, "t", first, frames(3, first));
          await store.compact();
          await assertItems(store, "t", 0, [frame(0), undefined, frame(2), ...frames(147, 3)]);
          await store.retain("t", [{ start: 0, count: 5 }], { below: 140, repack: true });
          await assertItems(store, "t", 0, [frame(0), undefined, frame(2), ...frames(2, 3)]);
          await assertOthersReadable(store);
        },
      );

      suite.testDamage(
        `heal() restores a damaged item (${how}) and leaves intact items alone`,
        async ({ store, damage }) => {
          await fill(store);
          await damage({ kind: "item", tape: "t", item: 1 }, how);
          await rejectsWith("CONFLICT", writeItems(store, "t", 2, [VICTIM]));
          const healing = new Map([
            [0, frame("wrong")],
            [1, VICTIM],
          ]);
          assert.equal(await store.heal("t", healing), 1);
          assert.equal(await store.heal("t", healing), 0);
          for (const when of ["before", "after"]) {
            if (when === "after") await store.compact();
            await assertItems(store, "t", 0, [frame(0), VICTIM, frame(2)]);
            assert.deepEqual(await store.itemRefs({ tape: "t", start: 0, count: 3 }), [{ item: 1, refs: VICTIM.refs }]);
          }
          await assertOthersReadable(store);
        },
      );

      suite.testDamage(
        `a damaged blob (${how}) is unreadable until its bytes are committed again`,
        async ({ store, damage }) => {
          await fill(store);
          await damage({ kind: "blob", hash: BLOB.hash }, how);
          assertUnreadable(await store.blob(BLOB.hash));
          if (how === "remove") await rejectsWithConflict(BLOB.hash, store, { blobs: [{ hash: BLOB.hash }] });
          await assertOthersReadable(store);
          // Bytes whose commit has resolved must be readable.
          await store.commit({ blobs: [BLOB] });
          assert.deepEqual(Buffer.from((await store.blob(BLOB.hash)) as Uint8Array), Buffer.from(BLOB.bytes));
        },
      );

      suite.testDamage(`an append with a damaged counter (${how}) is rejected`, async ({ store, damage }) => {
        for (let n = 0; n < 12; n++) await appendItems(store, "n", "next", frames(1, n));
        await damage({ kind: "record", key: "next" }, how);
        const append = appendItems(store, "n", "next", frames(1, 12));
        // It may reject before it is awaited.
        append.catch(() => {});
        const [counter] = await store.get(["next"]);
        await rejectsWith(counter ? "DAMAGED" : "CONFLICT", append);
        await assertItems(store, "n", 0, [...frames(12), undefined]);
      });
    }

    for (const how of ["flip", "truncate"] as const) {
      suite.testDamage(`damaged refs of an item (${how}) are unreadable`, async ({ store, damage }) => {
        await fill(store);
        await damage({ kind: "refs", tape: "t", item: 1 }, how);
        assertUnreadable(await store.itemRefs({ tape: "t", start: 0, count: 3 }));
        assertUnreadable(await store.itemRefs({ tape: "t", start: 1, count: 1 }));
        const [before, item, after] = await store.items([{ tape: "t", start: 0, count: 3 }]);
        assert.deepEqual([before, after], [frame(0), frame(2)]);
        if (!isUnreadable(item)) assert.deepEqual(item, VICTIM);
        assert.deepEqual(await store.itemRefs({ tape: "other", start: 0, count: 1 }), [{ item: 0, refs: VICTIM.refs }]);
        await assertOthersReadable(store);
      });
    }
  });
}

/** Commits data of all kinds, each with a separate commit. */
async function fill(store: Store): Promise<void> {
  for (const key of ["k/1", "k/2", "k/3"]) await store.commit({ puts: [{ key, value: TEXT, refs: "0+1" }] });
  for (const [first, item] of [frame(0), VICTIM, frame(2)].entries()) await writeItems(store, "t", first, [item]);
  await writeItems(store, "other", 0, [VICTIM]);
  await store.commit({ blobs: [BLOB] });
  await store.commit({ blobs: [blobOf("other")] });
}

/** All results of flipping a bit of a string or truncating it. */
function damagedForms(text: string): string[] {
  const bytes = Buffer.from(text);
  const flips = Array.from({ length: 8 * bytes.length }, (_, bit) => {
    const copy = Buffer.from(bytes);
    copy[bit >> 3] = (copy[bit >> 3] as number) ^ (1 << (bit & 7));
    return copy;
  });
  return [...flips, ...Array.from(bytes, (_, length) => bytes.subarray(0, length))].map((form) => form.toString());
}

/** Asserts that the data that the tests do not damage is readable. */
async function assertOthersReadable(store: Store): Promise<void> {
  assert.equal(await valueOf(store, "k/1"), TEXT);
  await assertItems(store, "other", 0, [VICTIM]);
  assert.ok(!isUnreadable(await store.blob(blobOf("other").hash)));
  const records = await store.list(EVERYTHING, { limit: 100 });
  assert.ok(records.filter(isUnreadable).length <= 1);
}
