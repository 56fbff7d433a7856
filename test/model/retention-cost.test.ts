/** The cost of retention, counted in calls of the store, not in time. */
import { describe, expect, it } from "vitest";
import { message, Savepoint } from "../../src/index.js";
import { openMemoryStore } from "../../src/store/memory/store.js";
import type { Store } from "../../src/store/contract/contract.js";
import { runs } from "../support/runs.js";

/** A store in memory, and how often each of its reads was called. */
function countingStore(): { store: Store; calls: Record<"get" | "list" | "items" | "blob", number> } {
  const store = openMemoryStore();
  const calls = { get: 0, list: 0, items: 0, blob: 0 };
  const [get, list] = [store.get.bind(store), store.list.bind(store)];
  const [items, blob] = [store.items.bind(store), store.blob.bind(store)];
  store.get = (...given) => (calls.get++, get(...given));
  store.list = (...given) => (calls.list++, list(...given));
  store.items = (...given) => (calls.items++, items(...given));
  store.blob = (...given) => (calls.blob++, blob(...given));
  return { store, calls };
}

describe("retention", () => {
  it("pruning all but a hundred checkpoints reads no states, and reports that only rows were freed", async () => {
    const saves = runs(10_000);
    const { store, calls } = countingStore();
    const sp = await Savepoint.open(store);
    const session = sp.session("s");
    const state = {
      messages: Array.from({ length: 20 }, (_, n) => message.user(`message ${n}`)),
      bytes: new Uint8Array(2000).fill(7),
    };
    for (let n = 0; n < saves; n++) await session.save({ n, ...state });
    calls.items = 0;
    calls.blob = 0;
    expect(await sp.prune({ session: "s", keepLast: 100 })).toMatchObject({
      removed: saves - 100,
      items: 0,
      rowsOnly: true,
    });
    expect(calls).toMatchObject({ items: 0, blob: 0 });
    expect((await session.latest())?.state).toEqual({ n: saves - 1, ...state });
  });

  it("reports it if items were freed as well", async () => {
    await using sp = await Savepoint.open("memory:");
    const session = sp.session("s");
    for (let n = 0; n < 5; n++) await session.save({ text: `${n}`.repeat(3000) });
    expect(await sp.prune({ session: "s", keepLast: 1, dryRun: true })).toMatchObject({ removed: 4, rowsOnly: false });
    expect((await sp.prune({ session: "s", keepLast: 1 })).rowsOnly).toBe(false);
    expect(await sp.prune({ session: "s", keepLast: 1 })).toMatchObject({ removed: 0, rowsOnly: false });
  });

  it("frees the items between those that stay, even if the refs of such an item cannot be read", async () => {
    const { store } = countingStore();
    const itemRefs = store.itemRefs.bind(store);
    const sp = await Savepoint.open(store);
    const session = sp.session("s");
    const messages = Array.from({ length: 5 }, (_, n) => message.user(`message ${n}`));
    await session.save({ messages });
    await session.save({ messages: [...messages.slice(0, 2), message.user("another"), ...messages.slice(3)] });
    store.itemRefs = async (span) =>
      span.start <= 2 && span.start + span.count > 2 ? { unreadable: "item 2 is damaged" } : itemRefs(span);
    expect(await sp.prune({ session: "s", keepLast: 1 })).toMatchObject({ removed: 1, items: 1 });
  });

  it("reads nothing on a save if there is no policy", async () => {
    const { store, calls } = countingStore();
    const sp = await Savepoint.open(store, { now: () => 0 });
    const session = sp.session("s");
    await session.save({ n: 0 });
    const before = { ...calls };
    for (let n = 1; n < 50; n++) await session.save({ n });
    expect(calls).toEqual(before);
  });

  it("reads nothing while there are fewer checkpoints than a policy keeps, or none is old enough", async () => {
    const { store, calls } = countingStore();
    const sp = await Savepoint.open(store, { now: () => 0 });
    await sp.retention.set({ session: "last" }, { keepLast: 100 });
    await sp.retention.set({ session: "within" }, { keepWithin: "1d", ttl: "2d" });
    await sp.retention.set({ session: "many" }, { keepLast: 1, keepWithin: "1d" });
    const sessions = ["last", "within", "many"].map((id) => sp.session(id));
    for (const session of sessions) for (let n = 0; n < 3; n++) await session.save({ n });
    const before = { ...calls };
    for (const session of sessions) for (let n = 3; n < 100; n++) await session.save({ n });
    expect(calls).toEqual(before);
  });

  it.each([
    ["keepLast", (sp: Savepoint) => sp.retention.set({ session: "s" }, { keepLast: 400 }), "manual"],
    ["a daily rule", (sp: Savepoint) => sp.retention.set({ session: "s" }, { keepLast: 400, keepDaily: 3 }), "manual"],
    [
      "a limit on automatic checkpoints beside many manual ones",
      (sp: Savepoint) => sp.autoCheckpoints.set({ session: "s" }, { max: 5 }),
      "automatic",
    ],
  ] as const)(
    "reads few rows per save of a large session with %s, and removes several at once",
    async (_, set, kind) => {
      const { store } = countingStore();
      const sp = await Savepoint.open(store, { now: () => 0 });
      const session = sp.session("s");
      for (let n = 0; n < 400; n++) await session.save({ n });
      await set(sp);
      // The first save sweeps.
      await session.save({ n: 400 }, { kind });
      let rows = 0;
      const list = store.list.bind(store);
      store.list = async (range, options) => {
        const records = await list(range, options);
        rows += records.length;
        return records;
      };
      const saves = 200;
      for (let n = 0; n < saves; n++) await session.save({ n }, { kind });
      // A sweep reads about 450 rows, and one in 50 saves sweeps. A sweep after each save would read 80,000.
      expect(rows / saves).toBeLessThan(20);
      expect((await session.history().all()).length).toBeLessThanOrEqual(460);
      await sp.retention.apply();
    },
  );

  it("keeps the cached state: the next save need not read it", async () => {
    const { store, calls } = countingStore();
    const sp = await Savepoint.open(store);
    await sp.retention.set({}, { keepLast: 1 });
    const session = sp.session("s");
    await session.save({ messages: Array.from({ length: 50 }, (_, n) => message.user(`message ${n}`)) });
    for (let n = 0; n < 20; n++) await session.append("/messages", [message.user("more")]);
    expect(calls.items).toBe(0);
    expect(await session.history().all()).toHaveLength(1);
    expect((await session.latest())?.state).toMatchObject({ messages: { length: 70 } });
  });

  it("does not fail a save: a failure is reported by an event", async () => {
    const { store } = countingStore();
    const failures: string[] = [];
    const on = { backgroundFailure: ({ message: text }: { message: string }) => void failures.push(text) };
    const sp = await Savepoint.open(store, { on });
    await sp.retention.set({}, { keepLast: 1 });
    const session = sp.session("s");
    await session.save({ n: 0 });
    const list = store.list.bind(store);
    store.list = () => Promise.reject(new Error("the disk is on fire"));
    await session.save({ n: 1 });
    expect(failures).toHaveLength(1);
    store.list = list;
    await session.save({ n: 2 });
    expect((await session.history().all()).map(({ seq }) => seq)).toEqual([2]);
  });
});
