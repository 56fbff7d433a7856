/** Why checkpoints of a session stay: because something needs them, or because they are wanted. */
import type { CheckpointRow } from "../records/index.js";
import { isPinned, type CheckpointSet, type NeededBy } from "./removal.js";
import { type KeepReason, keepReasons, type RetentionRules } from "../policies/index.js";

/**
 * The reasons to keep each checkpoint, by seq. A checkpoint without reasons is removed.
 *
 * A checkpoint that only other checkpoints need is removed together with the last of them, so no second pass is necessary.
 */
export function reasonsToKeep(known: CheckpointSet, retention: RetentionRules, now: number): Map<number, KeepReason[]> {
  const { rows, notes, heads } = known;
  const wanted = keepReasons(rows, retention, now, (row) => isLabelled(known, row));
  const own = new Map<number, KeepReason[]>();
  for (const row of rows) {
    own.set(row.seq, [
      ...(heads.has(row.seq) ? (["head"] as const) : []),
      ...(isPinned(row, notes.get(row.seq)) ? (["pinned"] as const) : []),
    ]);
  }
  const stays = staying(known, ({ seq }) => wanted.has(seq) || (own.get(seq) ?? []).length > 0);
  const reasons = new Map<number, KeepReason[]>();
  for (const { seq } of rows) {
    if (!stays.has(seq)) continue;
    const isNeeded = needsOf(known, seq, stays).length > 0;
    reasons.set(seq, [...(own.get(seq) ?? []), ...(isNeeded ? (["needed"] as const) : []), ...(wanted.get(seq) ?? [])]);
  }
  return reasons;
}

/** The same for a policy, see {@link withRewindNeeds}. */
export function whyKeptByPolicy(
  known: CheckpointSet,
  retention: RetentionRules,
  now: number,
): Map<number, KeepReason[]> {
  return reasonsToKeep(withRewindNeeds(known), retention, now);
}

/** The needs for a checkpoint, without those of checkpoints that are removed. */
export function needsOf(
  { needed }: CheckpointSet,
  seq: number,
  stays: { has(seq: number): boolean },
): readonly NeededBy[] {
  return (needed.get(seq) ?? []).filter((need) => need.kind !== "checkpoint" || stays.has(need.seq));
}

/** The seqs of the wanted checkpoints, and of all checkpoints that those or anything else needs. */
function staying({ rows, needed }: CheckpointSet, isWanted: (row: CheckpointRow) => boolean): Set<number> {
  const bySeq = new Map(rows.map((row) => [row.seq, row]));
  const stays = new Set<number>();
  for (const row of rows) {
    const isNeeded = needed.get(row.seq)?.some(({ kind }) => kind !== "checkpoint");
    if (isNeeded || isWanted(row)) stays.add(row.seq);
  }
  // Iterating over a set follows insertion order, and includes elements that are added meanwhile.
  for (const seq of stays) {
    const run = bySeq.get(seq)?.run;
    if (run?.midStep && bySeq.has(run.boundary)) stays.add(run.boundary);
  }
  return stays;
}

/** The same with what an automatic policy keeps as well: the state before the last rewind. */
export function withRewindNeeds(known: CheckpointSet): CheckpointSet {
  const needed = new Map(known.needed);
  for (const { seq } of statesBeforeRewinds(known)) {
    const branches = known.heads.get(seq + 1) ?? [];
    const needs = branches.map(({ name }) => ({ kind: "rewind", branch: name }) as const);
    needed.set(seq, [...(needed.get(seq) ?? []), ...needs]);
  }
  return { ...known, needed };
}

/** What was kept right before the heads that something was gone back to. */
export function statesBeforeRewinds({ rows, heads }: CheckpointSet): CheckpointRow[] {
  return rows.filter(({ kind, seq }) => {
    const [next] = heads.get(seq + 1) ?? [];
    return kind === "preOperation" && next?.head?.kind === "recovery";
  });
}

export function isLabelled({ notes }: CheckpointSet, row: CheckpointRow): boolean {
  return Boolean(notes.get(row.seq)?.get("label") ?? row.label);
}
