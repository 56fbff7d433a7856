import { describe, expect, it } from "vitest";
import { LruMap } from "./lru-map.js";

describe("an LRU map", () => {
  it("removes the entry that was used longest ago when there are too many", () => {
    const map = new LruMap<string, number>(2);
    map.set("a", 1);
    map.set("b", 2);
    expect(map.get("a")).toBe(1);
    map.set("c", 3);
    expect([...map.keys()]).toEqual(["a", "c"]);
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
    const evicted: string[] = [];
    const map = new LruMap<string, string>(10, (key) => evicted.push(key));
    map.set("a", "x", 4);
    map.set("b", "x", 4);
    map.set("c", "x", 4);
    expect(evicted).toEqual(["a"]);
    expect(map.weight).toBe(8);
    map.set("d", "x", 11);
    expect([...map.keys()]).toEqual(["d"]);
    expect(map.weight).toBe(11);
  });

  it("counts a replaced entry once, and reports neither it nor a deleted one as evicted", () => {
    const evicted: string[] = [];
    const map = new LruMap<string, number>(3, (key) => evicted.push(key));
    map.set("a", 1, 3);
    map.set("a", 2, 2);
    expect(map.weight).toBe(2);
    expect(map.delete("a")).toBe(true);
    expect(map.delete("a")).toBe(false);
    expect([map.weight, map.size, evicted.length]).toEqual([0, 0, 0]);
  });
});
