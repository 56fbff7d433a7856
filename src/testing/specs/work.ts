/** Looking for work, and being told of it: for stores that have either. */
import assert from "node:assert/strict";
import type { Store } from "../../store/index.js";
import type { Suite } from "../suite.js";
import { laterThan, until } from "./until.js";

const RANGES = [
  { from: "w/b", to: "w/c" },
  { from: "w/a", to: "w/b" },
];
/** Longer than any test takes, and shorter than that. */
const LONG = 600_000;

export function workSpec(suite: Suite): void {
  suite.describe("reserve", () => {
    suite.test(
      "gives records in the order of the ranges and of their keys, no more than asked for",
      async ({ store }) => {
        if (!store.reserve) return;
        await fill(store);
        const found = await store.reserve(RANGES, { limit: 4, forMs: LONG });
        assert.deepEqual(keysOf(found), ["w/b0", "w/b1", "w/b2", "w/a0"]);
      },
    );

    suite.test("gives each to one caller only, while it lasts", async ({ store }) => {
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

    suite.test("keeps nobody from reading or writing, and whoever writes takes it away", async ({ store }) => {
      if (!store.reserve) return;
      await fill(store);
      await store.reserve(RANGES, { limit: 10, forMs: LONG });
      await store.commit({ checks: [{ key: "w/a1", value: "1" }], puts: [{ key: "w/a1", value: "2" }] });
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

    suite.testShared("gives each to one of several handles that ask at once", async ({ store }, second) => {
      if (!store.reserve || !second.reserve) return;
      for (let n = 0; n < 60; n++) await store.commit({ puts: [{ key: `w/a${n}`, value: "1" }] });
      const ask = async (handle: Store): Promise<string[]> =>
        keysOf((await handle.reserve?.(RANGES, { limit: 10, forMs: LONG })) ?? []);
      const asked = Array.from({ length: 12 }, (_, index) => ask(index % 2 ? store : second));
      const keys = (await Promise.all(asked)).flat();
      assert.equal(new Set(keys).size, keys.length);
      // Those that were asked for at the same moment may have stepped over what the others were about to be given.
      keys.push(...keysOf(await store.reserve(RANGES, { limit: 60, forMs: LONG })));
      assert.equal(keys.length, 60);
    });
  });

  suite.describe("listen", () => {
    suite.test("names are called out once a commit is applied, and not where it is refused", async ({ store }) => {
      if (!store.listen) return;
      const heard = await listenTo(store);
      await store.commit({ puts: [{ key: "k", value: "1" }], wakes: ["one", "Ünï'\"code"] });
      await store.commit({ checks: [{ key: "k", value: "2" }], wakes: ["never"] }).catch(() => {});
      await store.commit({ puts: [{ key: "k", value: "2" }], wakes: ["two"] });
      await heard.until((names) => names.includes("two"));
      assert.deepEqual(heard.names, ["one", "Ünï'\"code", "two"]);
      await heard.end();
      const later = await listenTo(store);
      await store.commit({ wakes: ["three"] });
      await later.until((names) => names.includes("three"));
      assert.ok(!heard.names.includes("three"));
      await later.end();
    });

    suite.testShared("those of another handle are heard", async ({ store }, second) => {
      if (!store.listen) return;
      const heard = await listenTo(store);
      await Promise.all(Array.from({ length: 20 }, (_, n) => second.commit({ wakes: [`name ${n}`] })));
      await heard.until((names) => names.length >= 20);
      assert.equal(new Set(heard.names).size, 20);
      await heard.end();
    });
  });
}

async function fill(store: Store): Promise<void> {
  for (const key of ["w/a0", "w/a1", "w/a2", "w/b0", "w/b1", "w/b2", "w/c0"]) {
    await store.commit({ puts: [{ key, value: "1" }] });
  }
}

function keysOf(records: readonly { readonly key: string }[]): string[] {
  return records.map(({ key }) => key);
}

interface Heard {
  readonly names: string[];
  until(holds: (names: readonly string[]) => boolean): Promise<void>;
  end(): Promise<void>;
}

async function listenTo(store: Store): Promise<Heard> {
  const names: string[] = [];
  const end = (await store.listen?.((name) => names.push(name))) ?? (async () => {});
  return {
    names,
    end,
    until: (holds) =>
      until(
        () => holds(names),
        () => `names to be called out: only these were heard: ${names.join(", ")}`,
      ),
  };
}
