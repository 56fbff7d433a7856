import { describe, expect, it } from "vitest";
import { Lanes } from "../../src/cli/lanes.js";

/** Draws entries, newest first, each written as "id" or "id<parent". */
function draw(...entries: string[]): string[] {
  const lanes = new Lanes();
  return entries.flatMap((entry) => {
    const [id = "", parentId] = entry.split("<");
    const { before, prefix } = lanes.draw({ id, parentId });
    return [...before, `${prefix} ${id}`];
  });
}

describe("lanes", () => {
  it("a linear history is one lane", () => {
    expect(draw("c<b", "b<a", "a")).toEqual(["* c", "* b", "* a"]);
  });

  it("a single checkpoint is one lane", () => {
    expect(draw("a")).toEqual(["* a"]);
  });

  it("a lane that begins where another one has ended is not drawn as its continuation", () => {
    expect(draw("b<a", "a", "y<x", "x")).toEqual(["* b", "* a", "", "* y", "* x"]);
    expect(draw("b<a", "y", "x", "a")).toEqual(["* b", "| * y", "|", "| * x", "* a"]);
  });

  it("a branch is a lane beside its origin and joins it there", () => {
    expect(draw("x<a", "c<b", "b<a", "a")).toEqual(["* x", "| * c", "| * b", "|/", "* a"]);
  });

  it("checkpoints of two branches appear in the order in which they were saved", () => {
    expect(draw("d<c", "y<x", "c<b", "x<b", "b<a", "a")).toEqual([
      "* d",
      "| * y",
      "* | c",
      "| * x",
      "|/",
      "* b",
      "* a",
    ]);
  });

  it("three branches of one checkpoint join it, the rightmost first", () => {
    expect(draw("x<a", "y<a", "z<a", "a")).toEqual(["* x", "| * y", "| | * z", "|_|/", "|/", "* a"]);
  });

  it("nested branches join where each of them starts", () => {
    expect(draw("z<y", "y<b", "d<c", "x<c", "c<b", "b<a", "w<a", "a")).toEqual([
      "* z",
      "* y",
      "| * d",
      "| | * x",
      "| |/",
      "| * c",
      "|/",
      "* b",
      "| * w",
      "|/",
      "* a",
    ]);
  });

  it("a lane crosses another one on its way to the lane that it joins", () => {
    expect(draw("c<b", "y<x", "z<b", "b<a", "x<a", "a")).toEqual([
      "* c",
      "| * y",
      "| | * z",
      "|_|/",
      "* | b",
      "| * x",
      "|/",
      "* a",
    ]);
  });

  it("lanes to the right of a joining lane move left", () => {
    expect(draw("c<b", "x<b", "z<y", "b<a", "y<a", "a")).toEqual([
      "* c",
      "| * x",
      "| | * z",
      "|/ /",
      "* | b",
      "| * y",
      "|/",
      "* a",
    ]);
  });

  it("a lane crosses several lanes at once", () => {
    expect(draw("c<b", "x<w", "y<v", "z<b", "b<a", "w<a", "v<a", "a").slice(0, 6)).toEqual([
      "* c",
      "| * x",
      "| | * y",
      "| | | * z",
      "|_|_|/",
      "* | | b",
    ]);
  });

  it("a lane whose parent is not in the log continues to the end", () => {
    expect(draw("x<gone", "c<b", "b")).toEqual(["* x", "| * c", "| * b"]);
  });

  it("a checkpoint never appears as the parent of an unrelated checkpoint", () => {
    const drawn = draw("x<r", "c<b", "r", "b<a", "a");
    // Below the end of a lane there is no other lane, unless a line shows where it comes from.
    expect(drawn).toEqual(["* x", "| * c", "* | r", " /", "* b", "* a"]);
  });

  it("memory grows with the number of lanes, not with the length of the history", () => {
    const lanes = new Lanes();
    for (let n = 100_000; n > 0; n--) {
      const { before, prefix } = lanes.draw({ id: `${n}`, parentId: `${n - 1}` });
      if (prefix !== "*" || before.length > 0) throw new Error(`${n} is drawn as ${prefix}`);
    }
  });

  it("a hundred branches of one checkpoint join it one after the other", () => {
    const drawn = draw(...Array.from({ length: 100 }, (_, n) => `b${n}<a`), "a");
    expect(drawn).toHaveLength(200);
    expect(drawn.at(-2)).toBe("|/");
    expect(drawn.at(-1)).toBe("* a");
    expect(drawn[100]).toBe(`${"|_".repeat(98)}|/`);
  });
});
