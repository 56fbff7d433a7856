import { describe, expect, it } from "vitest";
import { either, isCounter, isNumber, isString, listOf, objectOf, oneOf, optional, tupleOf } from "./shape.js";

describe("shapes of decoded JSON", () => {
  it("accept counters that are safe integers from 0 on", () => {
    expect([0, 1, Number.MAX_SAFE_INTEGER].every(isCounter)).toBe(true);
    expect([-1, 0.5, 2 ** 53, Number.NaN, "1", null, undefined].some(isCounter)).toBe(false);
  });

  it("accept finite numbers only", () => {
    expect([-1.5, 0, 1e300].every(isNumber)).toBe(true);
    expect([Number.POSITIVE_INFINITY, Number.NaN, "1"].some(isNumber)).toBe(false);
  });

  it("accept tuples whose last positions may be missing, and nothing longer", () => {
    const shape = tupleOf(isCounter, optional(isString));
    expect([[1], [1, "x"]].every(shape)).toBe(true);
    expect([[], ["x"], [1, 2], [1, "x", 3], { 0: 1 }].some(shape)).toBe(false);
  });

  it("read own fields of objects only", () => {
    const shape = objectOf({ constructor: optional(isString), n: either(isCounter, oneOf("all")) });
    expect([{ n: 1 }, { n: "all", more: true }, { n: 1, constructor: "x" }].every(shape)).toBe(true);
    expect([{}, { n: "some" }, [], null, "n", { n: 1, constructor: 1 }].some(shape)).toBe(false);
  });

  it("accept lists whose elements all match", () => {
    expect(listOf(isString)(["a", "b"])).toBe(true);
    expect(listOf(isString)(["a", 1])).toBe(false);
  });
});
