import { describe, expect, it } from "vitest";
import { layOut, MAX_LANES } from "./lanes.js";

const nodes = (...pairs: readonly (readonly [number, number])[]): { seq: number; parent: number }[] =>
  pairs.map(([seq, parent]) => ({ seq, parent }));

describe("the lanes of a branch graph", () => {
  it("there is one lane for a history without forks", () => {
    const rows = layOut(nodes([3, 2], [2, 1], [1, -1]), [3]);
    expect(rows.map(({ lane }) => lane)).toEqual([0, 0, 0]);
    expect(rows.map(({ hasChild, hasParent }) => [hasChild, hasParent])).toEqual([
      [false, true],
      [true, true],
      [true, false],
    ]);
  });

  it("join at the checkpoint that a branch was forked from", () => {
    const rows = layOut(nodes([5, 2], [4, 3], [3, 2], [2, 1], [1, -1]), [5, 4]);
    expect(rows.map(({ lane }) => lane)).toEqual([0, 1, 1, 0, 0]);
    expect(rows[1]?.through).toEqual([0]);
    expect(rows[3]?.joins).toEqual([1]);
    expect(rows[4]).toMatchObject({ through: [], joins: [] });
  });

  it("checkpoints that a rewind removed from the branch are not shown as live", () => {
    const rows = layOut(nodes([4, 1], [3, 2], [2, 1], [1, -1]), [4]);
    expect(rows.map(({ isLive }) => isLive)).toEqual([true, false, false, true]);
    // All of the line down to the live checkpoint is drawn as left behind, also beside rows of other branches.
    expect(rows.map(({ faded }) => faded)).toEqual([[], [], [1], [1]]);
    const beside = layOut(nodes([5, 3], [4, 2], [3, 1], [2, 1], [1, -1]), [5]);
    expect(beside.map(({ faded }) => faded)).toEqual([[], [], [1], [1], [1]]);
  });

  it("end where the parent was pruned", () => {
    const rows = layOut(nodes([9, 8], [5, 4], [4, -1]), [9, 5]);
    expect(rows[1]).toMatchObject({ lane: 0, through: [], hasChild: false });
  });

  it("are bounded, however many branches there are", () => {
    const many = Array.from({ length: 5000 }, (_, index) => ({ seq: 10_000 - index, parent: 1 }));
    const rows = layOut([...many, { seq: 1, parent: -1 }], []);
    expect(Math.max(...rows.map(({ through }) => through.length))).toBeLessThanOrEqual(MAX_LANES);
    expect(rows.at(-1)?.joins).toHaveLength(4999);
  });
});
