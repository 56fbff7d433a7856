/** Times with fractions: clocks of processes have them, those of the database do not. */
import { describe, expect, it } from "vitest";
import { defineAgent, Savepoint } from "../../src/index.js";
import { openStore } from "../../src/store.js";
import { query } from "./schemas.js";
import { useUndo } from "./undo.js";

const { undo, newUrl } = useUndo();

describe("a time with a fraction", () => {
  it("is accepted as the `notBefore` of a commit and the `unusedSince` of blobs", async () => {
    const store = await openStore(newUrl(), { durability: "process" });
    undo.push(() => store.close());
    const now = await store.now();
    await store.commit({ notBefore: now - 0.5, puts: [{ key: "a", value: "1" }] });
    await expect(store.commit({ notBefore: now + 60_000.25, puts: [{ key: "a", value: "2" }] })).rejects.toMatchObject({
      code: "CONFLICT",
    });
    expect(await store.dropBlobs(["0".repeat(64)], { unusedSince: now - 0.5 })).toEqual({ items: 0, bytes: 0 });
  });

  it("may come from the caller's clock", async () => {
    let time = 1_700_000_000_000.75;
    const store = await openStore(newUrl(), { durability: "process", now: () => time });
    undo.push(() => store.close());
    await store.commit({ notBefore: time - 1, puts: [{ key: "w1", value: "1" }], blobs: [] });
    const work = { limit: 1, forMs: 1000.5 };
    expect(await store.reserve?.([{ from: "w", to: "x" }], work)).toHaveLength(1);
    expect(await store.reserve?.([{ from: "w", to: "x" }], work)).toHaveLength(0);
    time += 1001;
    expect(await store.reserve?.([{ from: "w", to: "x" }], work)).toHaveLength(1);
  });

  it("as the end of an expired lease does not prevent another process from claiming the session", async () => {
    const url = newUrl();
    const hanging = defineAgent({ name: "clerk", initial: () => ({}), step: () => new Promise(() => {}) });
    const clerk = defineAgent({ name: "clerk", initial: () => ({}), step: async (run) => run.complete("done") });
    const first = await Savepoint.open(url, { durability: "process", lease: "1h" });
    undo.push(() => first.close());
    await first.start(hanging, { session: "s", input: {} });
    // Its owner now looks like a process on another machine whose lease has expired.
    const store = await openStore(url, { durability: "process" });
    undo.push(() => store.close());
    const [owned] = await query<{ key: string }>(url, "SELECT key FROM {schema}.savepoint_record WHERE key LIKE 'u%'");
    const owner = (owned as { key: string }).key.slice(1).split("\t")[0] as string;
    const gone = { until: (await store.now()) - 1000.123, process: { host: "elsewhere", pid: 1 } };
    await store.commit({ puts: [{ key: `h${owner}`, value: JSON.stringify(gone) }] });
    const second = await Savepoint.open(url, { durability: "process" });
    undo.push(() => second.close());
    const result = await second.run(clerk, { session: "s", input: {} });
    expect(result.status).toBe("completed");
  });
});
