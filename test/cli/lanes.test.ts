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
  it("draw a line of checkpoints as one lane", () => {
    expect(draw("c<b", "b<a", "a")).toEqual(["* c", "* b", "* a"]);
  });

  it("draw a single checkpoint", () => {
    expect(draw("a")).toEqual(["* a"]);
  });

  it("draw a branch beside the line that it starts from, and let it join there", () => {
    expect(draw("x<a", "c<b", "b<a", "a")).toEqual(["* x", "| * c", "| * b", "|/", "* a"]);
  });

  it("draw checkpoints of two branches in the order in which they were saved", () => {
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

  it("let three branches of one checkpoint join it, the rightmost first", () => {
    expect(draw("x<a", "y<a", "z<a", "a")).toEqual(["* x", "| * y", "| | * z", "|_|/", "|/", "* a"]);
  });

  it("let nested branches join where each starts", () => {
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

  it("draw a lane that crosses another on its way to the one that it joins", () => {
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

  it("move lanes up that are right of one that joins", () => {
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

  it("cross several lanes at once", () => {
    expect(draw("c<b", "x<w", "y<v", "z<b", "b<a", "w<a", "v<a", "a").slice(0, 6)).toEqual([
      "* c",
      "| * x",
      "| | * y",
      "| | | * z",
      "|_|_|/",
      "* | | b",
    ]);
  });

  it("draw a lane that leads to what was left out until the end", () => {
    expect(draw("x<gone", "c<b", "b")).toEqual(["* x", "| * c", "| * b"]);
  });

  it("never let one checkpoint look like the parent of another that it is not", () => {
    const drawn = draw("x<r", "c<b", "r", "b<a", "a");
    // Right below a lane that ends there is no lane, unless a line shows where that comes from.
    expect(drawn).toEqual(["* x", "| * c", "* | r", " /", "* b", "* a"]);
  });

  it("remember no more than there are lanes, however long the history", () => {
    const lanes = new Lanes();
    for (let n = 100_000; n > 0; n--) {
      const { before, prefix } = lanes.draw({ id: `${n}`, parentId: `${n - 1}` });
      if (prefix !== "*" || before.length > 0) throw new Error(`${n} is drawn as ${prefix}`);
    }
  });

  it("let a hundred branches of one checkpoint join it one by one", () => {
    const drawn = draw(...Array.from({ length: 100 }, (_, n) => `b${n}<a`), "a");
    expect(drawn).toHaveLength(200);
    expect(drawn.at(-2)).toBe("|/");
    expect(drawn.at(-1)).toBe("* a");
    expect(drawn[100]).toBe(`${"|_".repeat(98)}|/`);
  });
});
