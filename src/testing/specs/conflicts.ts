/** Checks: a commit is applied only if its preconditions hold. */
import assert from "node:assert/strict";
import type { Check, Commit } from "../../store/index.js";
import { assertApplied, assertItems, rejectsWithConflict, rejectsWith, valueOf } from "../assertions.js";
import { frame, putsOf, swap, writeItems } from "../samples.js";
import type { Suite } from "../suite.js";

const AN_HOUR = 3_600_000;

export function conflictSpec(suite: Suite): void {
  suite.describe("conflicts", () => {
    suite.test("checks on values, existence and absence pass and fail as documented", async ({ store }) => {
      await store.commit({ puts: [{ key: "there", value: "1" }] });
      const holds: Check[] = [
        { key: "there", value: "1" },
        { key: "there", exists: true },
        { key: "missing", value: undefined },
      ];
      const fails: Check[] = [
        { key: "there", value: "2" },
        { key: "there", value: "" },
        { key: "there", value: undefined },
        { key: "missing", value: "1" },
        { key: "missing", value: "" },
        { key: "missing", exists: true },
        { key: "There", exists: true },
      ];
      for (const check of holds) await store.commit({ checks: [check] });
      await store.commit({ checks: holds });
      for (const check of fails) {
        await rejectsWithConflict(check.key, store, { checks: [...holds, check], puts: putsOf({ written: "1" }) });
      }
      assert.equal(await valueOf(store, "written"), undefined);
    });

    suite.test("a conflict names exactly the keys whose check failed", async ({ store }) => {
      await store.commit({ puts: [{ key: "fine", value: "1" }] });
      const checks: Check[] = [
        { key: "b", exists: true },
        { key: "fine", value: "1" },
        { key: "a", value: "2" },
      ];
      const error = await rejectsWith("CONFLICT", store.commit({ checks }));
      assert.deepEqual(error.details["keys"], ["b", "a"]);
    });

    suite.test("a conflict has the tags of the failed checks, and no others", async ({ store }) => {
      await store.commit({ puts: [{ key: "fine", value: "1" }] });
      const checks: Check[] = [
        { key: "b", exists: true, tag: "lease" },
        { key: "fine", value: "1", tag: "session" },
        { key: "a", value: "2", tag: "branch" },
        { key: "c", value: "3" },
        { key: "d", exists: true, tag: "lease" },
      ];
      const error = await rejectsWith("CONFLICT", store.commit({ checks }));
      assert.deepEqual(error.details["keys"], ["b", "a", "c", "d"]);
      assert.deepEqual(error.details["tags"], ["lease", "branch"]);
    });

    suite.test("a conflict without tagged checks has no tags", async ({ store }) => {
      await writeItems(store, "t", 0, [frame(0)]);
      const now = await store.now();
      const commits: Commit[] = [
        { checks: [{ key: "missing", exists: true }] },
        { items: [{ tape: "t", first: 0, items: [frame(0)] }] },
        { notBefore: now + AN_HOUR, checks: [{ key: "missing", value: undefined, tag: "holds" }] },
      ];
      for (const commit of commits) {
        const error = await rejectsWith("CONFLICT", store.commit(commit));
        assert.deepEqual(error.details["tags"], []);
      }
    });

    suite.test("a tag does not change the outcome of a check", async ({ store }) => {
      await store.commit(swap("head", undefined, "0", "branch"));
      for (let n = 1; n < 5; n++) {
        const step = (from: number): Commit => swap("head", String(from), String(n), "branch");
        const error = await rejectsWith("CONFLICT", store.commit(step(n + 1)));
        assert.deepEqual(error.details["tags"], ["branch"]);
        await store.commit(step(n - 1));
      }
      assert.equal(await valueOf(store, "head"), "4");
    });

    suite.test("a record with an empty value exists", async ({ store }) => {
      await store.commit({ puts: [{ key: "k", value: "" }] });
      await store.commit({
        checks: [
          { key: "k", value: "" },
          { key: "k", exists: true },
        ],
      });
      await rejectsWithConflict("k", store, { checks: [{ key: "k", value: undefined }] });
    });

    suite.test("checks are evaluated before the commit's own writes", async ({ store }) => {
      await rejectsWithConflict("k", store, swap("k", "1", "1"));
      await store.commit(swap("k", undefined, "1"));
      await store.commit({ checks: [{ key: "k", value: "1" }], deletes: ["k"] });
      assert.equal(await valueOf(store, "k"), undefined);
    });

    suite.test("a commit with a notBefore in the future of the store's clock conflicts", async ({ store }) => {
      const now = await store.now();
      assert.ok(Number.isFinite(now) && now > 0);
      await rejectsWith("CONFLICT", store.commit({ notBefore: now + AN_HOUR, puts: [{ key: "k", value: "early" }] }));
      assert.equal(await valueOf(store, "k"), undefined);
      await store.commit({ notBefore: now, puts: [{ key: "k", value: "in time" }] });
      await store.commit({ notBefore: now - AN_HOUR });
      // Clocks that are derived from elapsed time have fractions of milliseconds.
      await store.commit({ notBefore: now - 0.5 });
      await rejectsWith("CONFLICT", store.commit({ notBefore: now + AN_HOUR + 0.5 }));
      assert.equal(await valueOf(store, "k"), "in time");
    });

    suite.test("commits called in one turn may build on each other", async ({ store }) => {
      await Promise.all([
        store.commit({ puts: [{ key: "head", value: "1" }], items: [{ tape: "t", first: 0, items: [frame(0)] }] }),
        store.commit({ ...swap("head", "1", "2"), items: [{ tape: "t", first: 1, items: [frame(1)] }] }),
        store.commit({ checks: [{ key: "head", value: "2" }], deletes: ["head"] }),
        store.commit(swap("head", undefined, "4")),
      ]);
      assert.equal(await valueOf(store, "head"), "4");
    });

    suite.test("a conflict does not affect other commits called in the same turn", async ({ store }) => {
      const fine = Array.from({ length: 20 }, (_, n) => n % 3 !== 1);
      const commits = fine.map((isFine, n): Commit => {
        const puts = [{ key: `k${n}`, value: "1" }];
        return isFine ? { puts } : { checks: [{ key: "missing", exists: true }], puts };
      });
      await assertApplied(store, commits, fine);
      for (const [n, isFine] of fine.entries()) assert.equal(await valueOf(store, `k${n}`), isFine ? "1" : undefined);
    });

    suite.test("commits that build on a rejected commit are rejected too", async ({ store }) => {
      const step = (from: string | undefined, to: string): Commit => swap("head", from, to);
      const commits = [step(undefined, "1"), step("stale", "2"), step("2", "3"), step("3", "4"), step("1", "5")];
      await assertApplied(store, commits, [true, false, false, false, true]);
      assert.equal(await valueOf(store, "head"), "5");
    });

    suite.test("exactly one of many commits that race to create a record succeeds", async ({ store }) => {
      const claims = Array.from({ length: 50 }, (_, n) => store.commit(swap("owner", undefined, String(n))));
      const outcomes = await Promise.allSettled(claims);
      const winners = outcomes.flatMap(({ status }, n) => (status === "fulfilled" ? [String(n)] : []));
      assert.deepEqual(winners, [await valueOf(store, "owner")]);
    });

    suite.test("an empty commit is applied", async ({ store }) => {
      assert.deepEqual(await store.commit({}), { firsts: [] });
      await assertItems(store, "t", 0, [undefined]);
    });
  });
}
