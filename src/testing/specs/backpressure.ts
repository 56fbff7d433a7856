/** Backpressure: a caller that does not await its commits is delayed or rejected with `BUSY`. */
import assert from "node:assert/strict";
import { isSavepointError } from "../../errors.js";
import { listAll } from "../samples.js";
import type { Suite } from "../suite.js";

const FLOOD = 15_000;

export function backpressureSpec(suite: Suite): void {
  suite.describe("backpressure", () => {
    suite.test(
      "each commit of a flood is applied or rejected with BUSY, and the store stays usable",
      async ({ store }) => {
        const key = (n: number): string => `k/${String(n).padStart(6, "0")}`;
        const commits = Array.from({ length: FLOOD }, (_, n) => store.commit({ puts: [{ key: key(n), value: "1" }] }));
        const applied: string[] = [];
        for (const [n, outcome] of (await Promise.allSettled(commits)).entries()) {
          if (outcome.status === "fulfilled") applied.push(key(n));
          else assert.ok(isSavepointError(outcome.reason, "BUSY"), String(outcome.reason));
        }
        assert.ok(applied.length > 0);
        const found = await listAll(store, { from: "k/", to: "k0" }, 5_000);
        assert.equal(found.length, applied.length);
        for (const [n, record] of found.entries()) assert.equal(record.key, applied[n]);
        await store.commit({ puts: [{ key: "after", value: "1" }] });
      },
    );
  });
}
