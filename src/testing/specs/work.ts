/** Reservations of records and notifications of commits, for stores that support them. */
import assert from "node:assert/strict";
import type { Store } from "../../store/index.js";
import { keysOf, swap } from "../samples.js";
import type { Suite } from "../suite.js";
import { laterThan, until } from "./until.js";

const RANGES = [
  { from: "w/b", to: "w/c" },
  { from: "w/a", to: "w/b" },
];
/** A reservation that does not expire during a test, in milliseconds. */
const LONG = 600_000;

export function workSpec(suite: Suite): void {
  suite.describe("reserve", () => {
    suite.test(
      "reserve() returns records in the order of the ranges and their keys, up to the limit",
      async ({ store }) => {
        if (!store.reserve) return;
        await fill(store);
        const found = await store.reserve(RANGES, { limit: 4, forMs: LONG });
        assert.deepEqual(keysOf(found), ["w/b0", "w/b1", "w/b2", "w/a0"]);
      },
    );

    suite.test("a record is reserved for one caller until the reservation expires", async ({ store }) => {
      if (!store.reserve) return;
      await fill(store);
      const first = await store.reserve(RANGES, { limit: 2, forMs: LONG });
      const second = await store.reserve(RANGES, { limit: 10, forMs: 1 });
      assert.deepEqual(keysOf([...first, ...second]).sort(), ["w/a0", "w/a1", "w/a2", "w/b0", "w/b1", "w/b2"]);
      await laterThan(store, 1);
      const third = await store.reserve(RANGES, { limit: 10, forMs: LONG });
      assert.deepEqual(keysOf(third), keysOf(second));
      assert.deepEqual(await store.reserve(RANGES, { limit: 10, forMs: LONG }), []);
    });

    suite.test("a reservation does not block reads or writes, and a write ends it", async ({ store }) => {
      if (!store.reserve) return;
      await fill(store);
      await store.reserve(RANGES, { limit: 10, forMs: LONG });
      await store.commit(swap("w/a1", "1", "2"));
      await store.commit({ puts: [{ key: "w/b0", value: "2" }], deletes: ["w/b2"] });
      const found = await store.reserve(RANGES, { limit: 10, forMs: LONG });
      assert.deepEqual(
        found.map((record) => [record.key, "value" in record && record.value]),
        [
          ["w/b0", "2"],
          ["w/a1", "2"],
        ],
      );
    });

    suite.testShared("concurrent reservations of several handles never share a record", async ({ store }, second) => {
      if (!store.reserve || !second.reserve) return;
      for (let n = 0; n < 60; n++) await store.commit({ puts: [{ key: `w/a${n}`, value: "1" }] });
      const ask = async (handle: Store): Promise<string[]> =>
        keysOf((await handle.reserve?.(RANGES, { limit: 10, forMs: LONG })) ?? []);
      const asked = Array.from({ length: 12 }, (_, index) => ask(index % 2 ? store : second));
      const keys = (await Promise.all(asked)).flat();
      assert.equal(new Set(keys).size, keys.length);
      // Concurrent calls may have skipped records that others were about to reserve.
      keys.push(...keysOf(await store.reserve(RANGES, { limit: 60, forMs: LONG })));
      assert.equal(keys.length, 60);
    });
  });

  suite.describe("listen", () => {
    suite.test(
      "a listener receives the wake names of applied commits and not those of rejected ones",
      async ({ store }) => {
        if (!store.listen) return;
        const listener = await listenTo(store);
        await store.commit({ puts: [{ key: "k", value: "1" }], wakes: ["one", "Ünï'\"code"] });
        await store.commit({ checks: [{ key: "k", value: "2" }], wakes: ["never"] }).catch(() => {});
        await store.commit({ puts: [{ key: "k", value: "2" }], wakes: ["two"] });
        await listener.until((names) => names.includes("two"));
        assert.deepEqual(listener.names, ["one", "Ünï'\"code", "two"]);
        await listener.end();
        const later = await listenTo(store);
        await store.commit({ wakes: ["three"] });
        await later.until((names) => names.includes("three"));
        assert.ok(!listener.names.includes("three"));
        await later.end();
      },
    );

    suite.testShared("a listener receives the wake names of commits of another handle", async ({ store }, second) => {
      if (!store.listen) return;
      const listener = await listenTo(store);
      await Promise.all(Array.from({ length: 20 }, (_, n) => second.commit({ wakes: [`name ${n}`] })));
      await listener.until((names) => names.length >= 20);
      assert.equal(new Set(listener.names).size, 20);
      await listener.end();
    });
  });
}

async function fill(store: Store): Promise<void> {
  for (const key of ["w/a0", "w/a1", "w/a2", "w/b0", "w/b1", "w/b2", "w/c0"]) {
    await store.commit({ puts: [{ key, value: "1" }] });
  }
}

interface Listener {
  readonly names: string[];
  until(holds: (names: readonly string[]) => boolean): Promise<void>;
  end(): Promise<void>;
}

async function listenTo(store: Store): Promise<Listener> {
  const names: string[] = [];
  const end = (await store.listen?.((name) => names.push(name))) ?? (async () => {});
  return {
    names,
    end,
    until: (holds) =>
      until(
        () => holds(names),
        () => `wake names; received only: ${names.join(", ")}`,
      ),
  };
}
