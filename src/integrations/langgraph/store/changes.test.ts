import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { runs } from "../../../../test/support/runs.js";
import { applyChanges, findItem, indexOf, type ItemChange } from "./changes.js";
import type { NamespaceState } from "./items.js";

const key = fc.integer({ min: 0, max: 900 }).map((number) => `k${number}`);
const step = fc.oneof(
  fc.record({
    kind: fc.constant("put" as const),
    keys: fc.array(key, { minLength: 1, maxLength: 300 }),
    ttl: fc.boolean(),
  }),
  fc.record({ kind: fc.constant("delete" as const), keys: fc.array(key, { minLength: 1, maxLength: 300 }) }),
  fc.record({ kind: fc.constant("refresh" as const), keys: fc.array(key, { minLength: 1, maxLength: 20 }) }),
  fc.record({ kind: fc.constant("wait" as const), keys: fc.constant([]) }),
);

const TTL = 1000;

describe("the pages of a namespace", () => {
  it("have the items of a Map after any changes, in its order, with an index of where they are", () => {
    const property = fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
      const expected = new Map<string, { n: number; expiresAt: number }>();
      let state: NamespaceState | undefined;
      let index = indexOf(undefined);
      let now = 0;
      for (const each of steps) {
        now += each.kind === "wait" ? TTL : 1;
        for (const [name, { expiresAt }] of expected) if (expiresAt <= now) expected.delete(name);
        const changes = each.keys.map((name, n): ItemChange => {
          const before = expected.get(name);
          if (each.kind === "delete") expected.delete(name);
          else if (each.kind === "put")
            expected.set(name, { n, expiresAt: each.ttl ? now + TTL : Number.POSITIVE_INFINITY });
          else if (before && before.expiresAt < Number.POSITIVE_INFINITY)
            expected.set(name, { ...before, expiresAt: now + TTL });
          if (each.kind !== "put") return { kind: each.kind === "delete" ? "delete" : "refresh", key: name };
          const lifetime = each.ttl ? { ttl: TTL, expiresAt: now + TTL } : {};
          return { kind: "put", key: name, item: { key: name, value: { n }, updatedAt: now, ...lifetime } };
        });
        const before = state && structuredClone(state);
        const changed = applyChanges(["a"], state, index, changes, { now, mayExpire: true });
        expect(state).toEqual(before);
        if (changed) {
          index = changed.updateIndex(index);
          ({ state } = changed);
        }
        const items = state?.pages.flat() ?? [];
        expect(items.map((item) => [item.key, item.value["n"]])).toEqual(
          [...expected].map(([name, { n }]) => [name, n]),
        );
        expect(state?.pages.every(({ length }) => length > 0 && length <= 256) ?? true).toBe(true);
        expect(index).toEqual(indexOf(state));
        for (const item of items.slice(0, 3)) expect(findItem(state as NamespaceState, index, item.key)).toBe(item);
      }
    });
    fc.assert(property, { numRuns: runs(100, 10) });
  });

  it("share all but one page with the state before", () => {
    const put = (n: number): ItemChange => ({
      kind: "put",
      key: `k${n}`,
      item: { key: `k${n}`, value: { n }, updatedAt: n },
    });
    const many = Array.from({ length: 1000 }, (_, n) => put(n));
    const options = { now: 0, mayExpire: false };
    const first = applyChanges(["a"], undefined, indexOf(undefined), many, options)?.state;
    const second = applyChanges(["a"], first, indexOf(first), [put(300)], options)?.state;
    expect(first?.pages.map((page, at) => page === second?.pages[at])).toEqual([true, false, true, true]);
    expect(applyChanges(["a"], first, indexOf(first), [{ kind: "delete", key: "?" }], options)).toBeUndefined();
  });
});
