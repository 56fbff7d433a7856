/**
 * Which checkpoints of a session are kept, and why: because something needs them, or because the retention rules ask for
 * them. Pure functions over a {@link CheckpointSet}.
 */
import type { CheckpointRow } from "../records/index.js";
import { type KeepReason, keepReasons, type RetentionRules } from "../policies/index.js";
import { type CheckpointSet, isLabelled, isPinned, type NeededBy } from "./checkpoint-set.js";

/**
 * The reasons to keep each checkpoint, by seq. A checkpoint without reasons is to be removed.
 *
 * A checkpoint that only other checkpoints need is removed together with the last of them, so no second pass is necessary.
 */
export function reasonsToKeep(
  checkpoints: CheckpointSet,
  rules: RetentionRules,
  now: number,
): Map<number, KeepReason[]> {
  const { rows, heads } = checkpoints;
  const byRules = keepReasons(rows, rules, now, (row) => isLabelled(checkpoints, row));
  const own = new Map<number, KeepReason[]>();
  for (const row of rows) {
    own.set(row.seq, [
      ...(heads.has(row.seq) ? (["head"] as const) : []),
      ...(isPinned(checkpoints, row) ? (["pinned"] as const) : []),
    ]);
  }
  const kept = withNeeded(checkpoints, ({ seq }) => byRules.has(seq) || (own.get(seq) ?? []).length > 0);
  const reasons = new Map<number, KeepReason[]>();
  for (const { seq } of rows) {
    if (!kept.has(seq)) continue;
    const isNeeded = needsOf(checkpoints, seq, kept).length > 0;
    const needed = isNeeded ? (["needed"] as const) : [];
    reasons.set(seq, [...(own.get(seq) ?? []), ...needed, ...(byRules.get(seq) ?? [])]);
  }
  return reasons;
}

/** The seqs of the checkpoints that are kept for themselves, and of those that these or anything else needs. */
function withNeeded({ rows, needed }: CheckpointSet, isKept: (row: CheckpointRow) => boolean): Set<number> {
  const bySeq = new Map(rows.map((row) => [row.seq, row]));
  const kept = new Set<number>();
  for (const row of rows) {
    const isNeeded = needed.get(row.seq)?.some(({ kind }) => kind !== "checkpoint");
    if (isNeeded || isKept(row)) kept.add(row.seq);
  }
  // Iterating over a set follows insertion order and includes elements that are added meanwhile.
  for (const seq of kept) {
    const run = bySeq.get(seq)?.run;
    if (run?.midStep && bySeq.has(run.boundary)) kept.add(run.boundary);
  }
  return kept;
}

/**
 * What needs a checkpoint, without the checkpoints that are removed. The run of a branch is no reason to keep its head: a head is
 * always kept, and most runs have ended there.
 */
export function needsOf(
  { needed, heads }: CheckpointSet,
  seq: number,
  kept: { has(seq: number): boolean },
): readonly NeededBy[] {
  const isNeed = (need: NeededBy): boolean => {
    if (need.kind === "run") return !heads.get(seq)?.some(({ name }) => name === need.branch);
    return need.kind !== "checkpoint" || kept.has(need.seq);
  };
  return (needed.get(seq) ?? []).filter(isNeed);
}

/** The same checkpoints, with the needs that only automatic policies respect: the state before the last rewind. */
export function withRewindNeeds(checkpoints: CheckpointSet): CheckpointSet {
  const needed = new Map(checkpoints.needed);
  for (const { seq } of statesBeforeRewinds(checkpoints)) {
    const branches = checkpoints.heads.get(seq + 1) ?? [];
    const needs = branches.map(({ name }) => ({ kind: "rewind", branch: name }) as const);
    needed.set(seq, [...(needed.get(seq) ?? []), ...needs]);
  }
  return { ...checkpoints, needed };
}

/** The checkpoints that a rewind saved right before the current head of a branch, so that it can be undone. */
export function statesBeforeRewinds({ rows, heads }: CheckpointSet): CheckpointRow[] {
  return rows.filter(({ kind, seq }) => {
    const [next] = heads.get(seq + 1) ?? [];
    return kind === "preOperation" && next?.head?.kind === "recovery";
  });
}

/**
 * The oldest automatic checkpoints beyond `max`. Heads, pinned and needed ones are not among them, nor is the newest state
 * before an operation, which undoes that operation; so more than `max` may stay.
 */
export function automaticBeyond(checkpoints: CheckpointSet, max: number): CheckpointRow[] {
  const { rows, heads } = checkpoints;
  const automatic = rows.filter(
    (row) => (row.kind === "automatic" || row.kind === "preOperation") && !isPinned(checkpoints, row),
  );
  const undo = automatic.filter(({ kind }) => kind === "preOperation").at(-1);
  const removable = automatic.filter(({ seq }) => !heads.has(seq) && seq !== undo?.seq);
  const kept = new Set(rows.map(({ seq }) => seq));
  const removed: CheckpointRow[] = [];
  // Removing a checkpoint may free one before it that only it needs: the next round finds that one.
  for (let before = -1; before < removed.length;) {
    before = removed.length;
    for (const row of removable) {
      if (removed.length >= automatic.length - max) return removed;
      if (!kept.has(row.seq) || needsOf(checkpoints, row.seq, kept).length > 0) continue;
      kept.delete(row.seq);
      removed.push(row);
    }
  }
  return removed;
}
