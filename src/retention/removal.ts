/**
 * Removal of single checkpoints of a session, or of an agent. One commit deletes their rows and links the checkpoints after
 * them to those before them. Their items are freed by the next garbage collection.
 */
import { isSavepointError, SavepointError } from "../errors.js";
import type { Commit, Put } from "../store/index.js";
import { IntervalSet, type Span } from "../util/index.js";
import {
  annotationsOf,
  branchKey,
  type BranchRecord,
  type CheckpointRow,
  earliestExpiryOf,
  encodeBranch,
  encodeRow,
  encodeSession,
  idKey,
  labelKey,
  noteKey,
  notesOf,
  rowKey,
  sessionKey,
} from "../records/index.js";
import { describeSession, type SessionReader } from "../sessions/index.js";
import { type CheckpointSet, readCheckpointSet } from "./checkpoint-set.js";

/** Checkpoints to remove, and branches to change in the same commit. */
export interface Removal {
  readonly rows: readonly CheckpointRow[];
  readonly branches?: readonly BranchRecord[];
}

/** Attempts while other processes save. */
const MAX_ATTEMPTS = 1000;

/**
 * Removes the checkpoints that `choose` selects. If they change before the commit, they are read and `choose` is called
 * again. What `choose` throws is not retried.
 *
 * @returns the checkpoints that were removed
 * @throws BUSY if they changed in each of `maxAttempts` attempts; then nothing was removed
 */
export async function removeCheckpoints(
  reader: SessionReader,
  choose: (checkpoints: CheckpointSet) => Removal,
  maxAttempts = MAX_ATTEMPTS,
): Promise<readonly CheckpointRow[]> {
  for (let attempt = 1; ; attempt++) {
    const checkpoints = await readCheckpointSet(reader);
    if (!checkpoints) return [];
    const removal = choose(checkpoints);
    if (removal.rows.length === 0) return [];
    try {
      await reader.context.store.commit(buildRemovalCommit(reader, checkpoints, removal));
      return removal.rows;
    } catch (error) {
      if (!isSavepointError(error, "CONFLICT")) throw error;
      if (attempt === maxAttempts) throw checkpointsBusy(reader.sessionId, attempt, error);
    }
  }
}

function buildRemovalCommit(reader: SessionReader, checkpoints: CheckpointSet, removal: Removal): Commit {
  const { session, notes } = checkpoints;
  const { sessionId } = reader;
  const { number } = session.record;
  const changed = new Map((removal.branches ?? []).map((branch) => [branch.name, branch]));
  const branches = checkpoints.branches.map(({ record, value }) => ({
    ...(changed.get(record.name) ?? record),
    value,
  }));
  const rows = new Map(checkpoints.rows.map((row) => [row.seq, row]));
  // A hidden head has no row.
  for (const { head } of branches) if (head && !rows.has(head.seq)) rows.set(head.seq, head);
  const relinked = relink(rows, removal.rows);
  const stored = new Set(checkpoints.rows.map(({ seq }) => seq));
  const puts: Put[] = [...relinked.values()]
    .filter(({ seq }) => stored.has(seq))
    .map((row) => ({ key: rowKey(number, row.seq), value: encodeRow(row), refs: row.skeleton.refs }));
  for (const { value, ...branch } of branches) {
    const head = branch.head && relinked.get(branch.head.seq);
    const parentId = head?.parent === undefined ? undefined : rows.get(head.parent)?.id;
    const next = encodeBranch(head ? { ...branch, head, headParentId: parentId } : branch);
    if (next !== value) puts.push({ key: branchKey(sessionId, branch.name), value: next });
  }
  const count = Math.max(0, session.record.checkpoints - removal.rows.length);
  const removed = new Set(removal.rows.map(({ seq }) => seq));
  const earliestExpiry = earliestExpiryOf(checkpoints.rows.filter(({ seq }) => !removed.has(seq)));
  puts.push({
    key: sessionKey(sessionId),
    value: encodeSession({ ...session.record, checkpoints: count, earliestExpiry }),
  });
  return {
    checks: [
      { key: sessionKey(sessionId), value: session.value },
      ...checkpoints.branches.map(({ record, value }) => ({ key: branchKey(sessionId, record.name), value })),
      // A checkpoint that was pinned or labelled meanwhile may have to be kept.
      ...removal.rows.flatMap(({ seq }) =>
        ["pin", "label"].map((name) => ({ key: noteKey(number, seq, name), value: notes.get(seq)?.get(name) })),
      ),
    ],
    deletes: [
      ...removal.rows.flatMap((row) => {
        const label = notes.get(row.seq)?.get("label") ?? row.label;
        return [rowKey(number, row.seq), idKey(row.id, number), ...(label ? [labelKey(number, label, row.seq)] : [])];
      }),
      // Consecutive checkpoints have adjacent notes and annotations. A checkpoint with unreadable notes is never removed.
      ...spansOf(removed).flatMap(({ start, count }) => [
        notesOf(number, start, start + count),
        annotationsOf(number, start, start + count),
      ]),
    ],
    puts,
  };
}

function spansOf(seqs: ReadonlySet<number>): Span[] {
  const intervals = new IntervalSet();
  for (const seq of seqs) intervals.add(seq, 1);
  return intervals.spans();
}

/** The kept rows whose parent or grandparent is removed, linked to their nearest kept ancestors instead. */
function relink(
  rows: ReadonlyMap<number, CheckpointRow>,
  removed: readonly CheckpointRow[],
): Map<number, CheckpointRow> {
  const removedBySeq = new Map(removed.map((row) => [row.seq, row]));
  const nearestKept = (seq: number | undefined): number | undefined => {
    let at = seq;
    while (at !== undefined && removedBySeq.has(at)) at = removedBySeq.get(at)?.parent;
    return at;
  };
  const relinked = new Map<number, CheckpointRow>();
  for (const row of rows.values()) {
    if (removedBySeq.has(row.seq)) continue;
    const parent = nearestKept(row.parent);
    const parentRow = parent === undefined ? undefined : rows.get(parent);
    // The parent of an unreadable row is known only from its child.
    const grandparent = nearestKept(parentRow ? parentRow.parent : parent === row.parent ? row.grandparent : undefined);
    if (parent !== row.parent || grandparent !== row.grandparent)
      relinked.set(row.seq, { ...row, parent, grandparent });
  }
  return relinked;
}

function checkpointsBusy(sessionId: string, attempts: number, cause: unknown): SavepointError<"BUSY"> {
  return new SavepointError(
    "BUSY",
    `Checkpoints of ${describeSession(sessionId)} could not be removed: other processes saved during each of ${attempts} attempts. Nothing was removed. Try again.`,
    { cause },
  );
}

/** The error for a checkpoint that cannot be removed, with the reason as a clause. */
export function stillNeeded(sessionId: string, row: CheckpointRow, why: string): SavepointError<"CONFLICT"> {
  return new SavepointError(
    "CONFLICT",
    `Checkpoint ${row.id} of ${describeSession(sessionId)} cannot be deleted: ${why}.`,
    { details: { checkpointId: row.id } },
  );
}
