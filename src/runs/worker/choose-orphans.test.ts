import { describe, expect, it } from "vitest";
import { chooseOrphans, type OrphanCandidate, suspicionThreshold } from "./choose-orphans.js";

const candidate = (session: string, crashes: number | undefined): OrphanCandidate => ({
  orphan: { session, branch: "main", key: session, owner: "owner", takeovers: 0 },
  crashes,
});

const choose = (
  candidates: OrphanCandidate[],
  capacity: number,
  hasSuspect: boolean,
): [string[], string | undefined] => {
  const { chosen, suspect } = chooseOrphans(candidates, capacity, 2, hasSuspect);
  return [chosen.map(({ session }) => session), suspect?.session];
};

describe("the choice of abandoned runs", () => {
  it("starts as many runs as the worker has capacity for, in their order", () => {
    expect(choose([candidate("a", 0), candidate("b", 1), candidate("c", 0)], 2, false)).toEqual([
      ["a", "b"],
      undefined,
    ]);
  });

  it("skips runs that must not be started without using capacity for them", () => {
    expect(choose([candidate("a", undefined), candidate("b", 0)], 1, false)).toEqual([["b"], undefined]);
  });

  it("starts one suspect beside the runs that are not suspected", () => {
    expect(choose([candidate("a", 2), candidate("b", 3), candidate("c", 0)], 9, false)).toEqual([["a", "c"], "a"]);
  });

  it("starts no suspect while the worker runs one", () => {
    expect(choose([candidate("a", 2), candidate("b", 0)], 9, true)).toEqual([["b"], undefined]);
  });

  it("suspects a run before it has crashed as many processes as quarantine it", () => {
    expect([1, 2, 3, 5].map(suspicionThreshold)).toEqual([1, 1, 2, 2]);
  });
});
