import { describe, expect, it } from "vitest";
import type { CheckpointRow } from "../records/index.js";
import type { Heads } from "../sessions/index.js";
import { planSaveTargets, type SaveOrigin } from "./save-target.js";

const HANDLE: SaveOrigin = { branch: "main", isNamed: false, resetBranch: false };
const NAMED: SaveOrigin = { ...HANDLE, isNamed: true };
const RESETTING: SaveOrigin = { ...HANDLE, resetBranch: true };

const row = (seq: number, branch = "main"): CheckpointRow => ({ seq, branch }) as CheckpointRow;
const headsAt = (head: CheckpointRow | undefined): Heads => ({ session: {}, branch: { record: { head } } }) as Heads;
const NO_BRANCH: Heads = { session: undefined, branch: undefined };

describe("planning where a checkpoint with an explicit parent is saved", () => {
  it("a checkpoint without a parent is the first one of an empty main branch", () => {
    expect(planSaveTargets(NO_BRANCH, undefined, HANDLE)).toEqual([{ kind: "head" }]);
    expect(planSaveTargets(headsAt(undefined), undefined, { ...NAMED, branch: "b" })).toEqual([{ kind: "head" }]);
  });

  it("a checkpoint without a parent creates the named branch that does not exist", () => {
    expect(planSaveTargets(NO_BRANCH, undefined, { ...NAMED, branch: "b" })).toEqual([{ kind: "create" }]);
  });

  it("on a branch with checkpoints, a checkpoint without a parent starts a new branch, resets this one, or has no place", () => {
    const heads = headsAt(row(3));
    expect(planSaveTargets(heads, undefined, HANDLE)).toEqual([{ kind: "root" }]);
    expect(planSaveTargets(heads, undefined, RESETTING)).toEqual([{ kind: "reset", parent: undefined }]);
    expect(planSaveTargets(heads, undefined, NAMED)).toEqual([]);
  });

  it("a parent on the handle's branch is extended first, and only then forked or reset", () => {
    const parent = row(2);
    const extend = { kind: "extend", branch: "main", parent };
    expect(planSaveTargets(headsAt(row(3)), parent, HANDLE)).toEqual([extend, { kind: "fork", parent }]);
    expect(planSaveTargets(headsAt(row(3)), parent, RESETTING)).toEqual([extend, { kind: "reset", parent }]);
    expect(planSaveTargets(headsAt(row(3)), parent, NAMED)).toEqual([extend]);
  });

  it("a head that was saved on another branch is extended on the handle's branch", () => {
    const parent = row(2, "other");
    expect(planSaveTargets(headsAt(parent), parent, NAMED)).toEqual([{ kind: "extend", branch: "main", parent }]);
  });

  it("a parent on another branch is extended there, unless the handle names its branch or resets it", () => {
    const parent = row(2, "other");
    const heads = headsAt(row(3));
    expect(planSaveTargets(heads, parent, HANDLE)).toEqual([
      { kind: "extend", branch: "other", parent },
      { kind: "fork", parent },
    ]);
    expect(planSaveTargets(heads, parent, NAMED)).toEqual([]);
    expect(planSaveTargets(heads, parent, RESETTING)).toEqual([{ kind: "reset", parent }]);
  });
});
