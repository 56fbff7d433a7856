import { describe, expect, it } from "vitest";
import { Recent } from "./recent-records.js";

const knownOf = (recent: Recent<string>, keys: string): string =>
  keys
    .split("")
    .filter((key) => recent.has(key))
    .join("");

describe("a map of recent values", () => {
  it("forgets what was set longest ago when there are too many entries", () => {
    const recent = new Recent<string>(2);
    for (const key of "abac") recent.set(key, key);
    expect(knownOf(recent, "abc")).toBe("ac");
  });

  it("forgets what was set longest ago when the values are too long together", () => {
    const recent = new Recent<string>(100, 100, (value) => value.length);
    for (const key of "abcd") recent.set(key, "x".repeat(40));
    expect(knownOf(recent, "abcd")).toBe("cd");
    recent.set("d", "");
    recent.set("e", "x".repeat(40));
    expect(knownOf(recent, "cde")).toBe("cde");
  });

  it("does not keep a value that is longer than all may be together", () => {
    const recent = new Recent<string>(100, 100, (value) => value.length);
    recent.set("a", "x".repeat(200));
    expect(recent.has("a")).toBe(false);
    for (const key of "bc") recent.set(key, "x".repeat(40));
    expect(knownOf(recent, "bc")).toBe("bc");
  });

  it("counts anew after it was cleared or an entry was deleted", () => {
    const recent = new Recent<string>(100, 100, (value) => value.length);
    recent.set("a", "x".repeat(90));
    recent.delete("a");
    recent.set("b", "x".repeat(90));
    expect(recent.has("b")).toBe(true);
    recent.clear();
    recent.set("c", "x".repeat(90));
    expect(recent.has("c")).toBe(true);
  });
});
