import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { valueToShadow } from "./value-to-shadow.js";
import { equalsFlat, flatten } from "./flat.js";
import { ClassRegistry } from "./class-registry.js";
import { equalsShadow } from "./equality.js";

const registry = new ClassRegistry();
const json = fc.jsonValue({ maxDepth: 4 }).map((value) => JSON.parse(JSON.stringify(value)) as unknown);
/** Small parts, so that two random values are often almost equal. */
const small = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.constantFrom<unknown>(0, -0, 1, "", "a", true, false, null, Number.NaN, undefined),
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom("a", "b", "$", "0"), tie("value"), { maxKeys: 3, noNullPrototype: true }),
  ),
})).value;

describe("a flat form", () => {
  it("equals its original value and copies of it", () => {
    fc.assert(
      fc.property(json, (value) => {
        const flat = flatten(valueToShadow(value, registry));
        expect(flat === null || equalsFlat(flat, structuredClone(value))).toBe(true);
      }),
    );
  });

  it("never equals a value that its shadow does not equal", () => {
    fc.assert(
      fc.property(small, small, (one, other) => {
        const shadow = valueToShadow(one, registry);
        const flat = flatten(shadow);
        if (flat && equalsFlat(flat, other)) expect(equalsShadow(shadow, other, registry)).toBe(true);
      }),
      { numRuns: 5000 },
    );
  });

  it("distinguishes values that have equal JSON", () => {
    const flat = flatten({ a: [0, "x"], b: { c: null } }) ?? [];
    const same = (value: unknown): boolean => equalsFlat(flat, value);
    expect(same({ a: [0, "x"], b: { c: null } })).toBe(true);
    // oxlint-disable-next-line no-sparse-arrays
    const holes: unknown[] = [, "x"];
    for (const other of [
      { b: { c: null }, a: [0, "x"] },
      { a: [-0, "x"], b: { c: null } },
      { a: [0, "x"], b: { c: undefined } },
      { a: [0, "x"], b: { c: null, d: undefined } },
      { a: holes, b: { c: null } },
      { a: [0, "x", undefined], b: { c: null } },
      { a: { 0: 0, 1: "x" }, b: { c: null } },
      { a: [0, "x"], b: new Date(0) },
      { a: [0, "x"], b: Object.assign(Object.create(null) as object, { c: null }) },
      { a: [0, "x"] },
      [],
      "a",
      undefined,
    ]) {
      expect(same(other)).toBe(false);
    }
  });

  it("does not exist for anything but plain JSON", () => {
    for (const value of [new Date(), { $: 1 }, [new Map()], { a: new Uint8Array(2000) }, Number.NaN]) {
      expect(flatten(valueToShadow(value, registry))).toBeNull();
    }
  });
});
