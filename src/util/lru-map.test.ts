import { describe, expect, it } from "vitest";
import { LruMap } from "./lru-map.js";

const LETTERS = ["a", "b", "c", "d"];
const keysOf = (map: LruMap<string, unknown>): string[] => LETTERS.filter((key) => map.has(key));

describe("an LRU map", () => {
  it("removes the entry that was used longest ago when there are too many", () => {
    const map = new LruMap<string, number>(2);
    map.set("a", 1);
    map.set("b", 2);
    expect(map.get("a")).toBe(1);
    map.set("c", 3);
    expect(keysOf(map)).toEqual(["a", "c"]);
  });

  it("does not count a peek as use", () => {
    const map = new LruMap<string, number>(2);
    map.set("a", 1);
    map.set("b", 2);
    expect(map.peek("a")).toBe(1);
    map.set("c", 3);
    expect(map.has("a")).toBe(false);
  });

  it("bounds the sum of the weights, and keeps the newest entry even if it alone is too heavy", () => {
    const map = new LruMap<string, string>(10);
    map.set("a", "x", 4);
    map.set("b", "x", 4);
    map.set("c", "x", 4);
    expect(keysOf(map)).toEqual(["b", "c"]);
    map.set("d", "x", 11);
    expect(keysOf(map)).toEqual(["d"]);
  });

  it("counts a replaced entry once, and a deleted one not at all", () => {
    const map = new LruMap<string, number>(3);
    map.set("a", 1, 3);
    map.set("a", 2, 2);
    map.set("b", 3, 1);
    expect(keysOf(map)).toEqual(["a", "b"]);
    expect(map.delete("a")).toBe(true);
    expect(map.delete("a")).toBe(false);
    map.set("c", 4, 2);
    expect(keysOf(map)).toEqual(["b", "c"]);
  });

  it("has room for everything again after it was cleared", () => {
    const map = new LruMap<string, number>(2);
    map.set("a", 1, 2);
    map.clear();
    map.set("b", 1);
    map.set("c", 1);
    expect(keysOf(map)).toEqual(["b", "c"]);
  });
});
