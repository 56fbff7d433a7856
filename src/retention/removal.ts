/**
 * Removing single checkpoints of a session, or of an agent. Those that follow them are linked to those before them, in
 * the same commit. Their items are freed by the next collection.
 */
import { isSavepointError, SavepointError } from "../errors.js";
import type { Commit, Put } from "../store/index.js";
import { IntervalSet, type Span } from "../util/index.js";
import {
  annotationsOf,
  branchKey,
  type BranchRecord,
  decodeJournal,
  encodeBranch,
  encodeRow,
  encodeSession,
  earliestExpiryOf,
  idKey,
  journalKey,
  labelKey,
  noteKey,
  type CheckpointRow,
  rowKey,
  sessionKey,
  type SessionRecord,
} from "../records/index.js";
import { describeSession, type LoadedRecord, type Notes, type SessionReader } from "../sessions/index.js";

/** What needs a checkpoint. One that only another checkpoint needs may be removed together with that one. */
export type NeededBy =
  /** A checkpoint in the middle of a step that began with this one. */
  | { readonly kind: "checkpoint"; readonly id: string; readonly seq: number }
  /** A branch that starts from it. */
  | { readonly kind: "branch"; readonly branch: string }
  /** The run on this branch: its current step began with it, or its next one does. */
  | { readonly kind: "run"; readonly branch: string }
  /** The branch was rewound; this checkpoint is its state before that. */
  | { readonly kind: "rewind"; readonly branch: string }
  /** A damaged record that may need it. */
  | { readonly kind: "damage"; readonly detail: string };

/** All that is known of the checkpoints of a session. */
export interface CheckpointSet {
  readonly session: LoadedRecord<SessionRecord>;
  readonly branches: readonly LoadedRecord<BranchRecord>[];
  /** In the order of their seqs; those that cannot be read are not among them. */
  readonly rows: readonly CheckpointRow[];
  readonly notes: ReadonlyMap<number, Notes>;
  /** What needs a checkpoint, by seq. That it is a head is not listed here. */
  readonly needed: ReadonlyMap<number, readonly NeededBy[]>;
  /** The branches that have a checkpoint as their head, by seq. */
  readonly heads: ReadonlyMap<number, readonly BranchRecord[]>;
}

/** What is to go, and what else becomes of the branches. */
export interface Removal {
  readonly rows: readonly CheckpointRow[];
  readonly branches?: readonly BranchRecord[];
}

/** Somebody saves at the same time, again and again. */
const MAX_TRIES = 1000;

/**
 * Removes what `choose` says of the checkpoints that are there. It is asked again if they change meanwhile.
 *
 * @returns the checkpoints that were removed
 */
export async function removeCheckpoints(
  reader: SessionReader,
  choose: (checkpoints: CheckpointSet) => Removal,
  maxTries = MAX_TRIES,
): Promise<readonly CheckpointRow[]> {
  for (let tries = 1; ; tries++) {
    const checkpoints = await readCheckpoints(reader);
    if (!checkpoints) return [];
    const removal = choose(checkpoints);
    if (removal.rows.length === 0) return [];
    try {
      await reader.context.store.commit(toCommit(reader, checkpoints, removal));
      return removal.rows;
    } catch (error) {
      if (!isSavepointError(error, "CONFLICT")) throw error;
      if (tries === maxTries) throw alwaysSaving(reader.sessionId, tries, error);
    }
  }
}

export function isPinned(row: CheckpointRow, notes: Notes | undefined): boolean {
  const pin = notes?.get("pin");
  return pin === undefined ? row.pinned : pin === "1";
}

async function readCheckpoints(reader: SessionReader): Promise<CheckpointSet | undefined> {
  const session = await reader.session();
  if (!session) return undefined;
  const { number } = session.record;
  const branches: LoadedRecord<BranchRecord>[] = [];
  for await (const branch of reader.branches()) branches.push(branch);
  const rows: CheckpointRow[] = [];
  for await (const row of reader.allRows(number, false)) if (!("unreadable" in row)) rows.push(row);
  const needed = await findNeeds(reader, branches, rows);
  const keep = (seq: number): void =>
    addNeed(needed, seq, { kind: "damage", detail: "what is attached to it cannot be read, so it may be pinned" });
  const notes = await reader.notes(number, 0, session.record.nextSeq, keep);
  const heads = new Map<number, BranchRecord[]>();
  for (const { record } of branches) {
    if (record.head) heads.set(record.head.seq, [...(heads.get(record.head.seq) ?? []), record]);
  }
  return { session, branches, rows, notes, needed, heads };
}

async function findNeeds(
  reader: SessionReader,
  branches: readonly LoadedRecord<BranchRecord>[],
  rows: readonly CheckpointRow[],
): Promise<Map<number, NeededBy[]>> {
  const needs = new Map<number, NeededBy[]>();
  for (const { run, id, seq } of rows) {
    if (run?.midStep) addNeed(needs, run.boundary, { kind: "checkpoint", id, seq });
  }
  const keys = branches.map(({ record }) => journalKey(reader.sessionId, record.name));
  const journals = await reader.context.store.get(keys);
  for (const [index, { record }] of branches.entries()) {
    const branch = record.name;
    if (record.forkedFrom !== undefined) addNeed(needs, record.forkedFrom, { kind: "branch", branch });
    const journal = journals[index];
    if (!journal) continue;
    if ("value" in journal) addNeed(needs, decodeJournal(journal.value).boundary, { kind: "run", branch });
    else {
      const detail = `the record of the run on branch ${JSON.stringify(branch)} is damaged, and its step may begin with it`;
      for (const { seq } of rows) addNeed(needs, seq, { kind: "damage", detail });
    }
  }
  return needs;
}

function addNeed(needs: Map<number, NeededBy[]>, seq: number, need: NeededBy): void {
  const known = needs.get(seq);
  if (known) known.push(need);
  else needs.set(seq, [need]);
}

function toCommit(reader: SessionReader, checkpoints: CheckpointSet, removal: Removal): Commit {
  const { session, notes } = checkpoints;
  const { sessionId } = reader;
  const { number } = session.record;
  const changed = new Map((removal.branches ?? []).map((branch) => [branch.name, branch]));
  const branches = checkpoints.branches.map(({ record, value }) => ({
    ...(changed.get(record.name) ?? record),
    value,
  }));
  const rows = new Map(checkpoints.rows.map((row) => [row.seq, row]));
  // A head may have no row of its own.
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
  const left = Math.max(0, session.record.checkpoints - removal.rows.length);
  const gone = new Set(removal.rows.map(({ seq }) => seq));
  const expires = earliestExpiryOf(checkpoints.rows.filter(({ seq }) => !gone.has(seq)));
  puts.push({
    key: sessionKey(sessionId),
    value: encodeSession({ ...session.record, checkpoints: left, earliestExpiry: expires }),
  });
  return {
    checks: [
      { key: sessionKey(sessionId), value: session.value },
      ...checkpoints.branches.map(({ record, value }) => ({ key: branchKey(sessionId, record.name), value })),
      // One that somebody has pinned or labelled meanwhile is another matter.
      ...removal.rows.flatMap(({ seq }) =>
        ["pin", "label"].map((name) => ({ key: noteKey(number, seq, name), value: notes.get(seq)?.get(name) })),
      ),
    ],
    deletes: [
      ...removal.rows.flatMap((row) => {
        const label = notes.get(row.seq)?.get("label") ?? row.label;
        return [
          rowKey(number, row.seq),
          // The commit checks that none was added since. A checkpoint with unreadable notes is never removed.
          ...[...(notes.get(row.seq)?.keys() ?? [])].map((name) => noteKey(number, row.seq, name)),
          idKey(row.id, number),
          ...(label ? [labelKey(number, label, row.seq)] : []),
        ];
      }),
      // Consecutive checkpoints have adjacent attachments.
      ...spansOf(gone).map(({ start, count }) => annotationsOf(number, start, start + count)),
    ],
    puts,
  };
}

function spansOf(seqs: ReadonlySet<number>): Span[] {
  const intervals = new IntervalSet();
  for (const seq of seqs) intervals.add(seq, 1);
  return intervals.spans();
}

/** Those of the rows that stay whose parent or grandparent goes, with the next ones that stay in their place. */
function relink(
  rows: ReadonlyMap<number, CheckpointRow>,
  removed: readonly CheckpointRow[],
): Map<number, CheckpointRow> {
  const gone = new Map(removed.map((row) => [row.seq, row]));
  const staying = (seq: number | undefined): number | undefined => {
    let at = seq;
    while (at !== undefined && gone.has(at)) at = gone.get(at)?.parent;
    return at;
  };
  const relinked = new Map<number, CheckpointRow>();
  for (const row of rows.values()) {
    if (gone.has(row.seq)) continue;
    const parent = staying(row.parent);
    const known = parent === undefined ? undefined : rows.get(parent);
    // What is before a row that cannot be read, only the row itself can say.
    const grandparent = staying(known ? known.parent : parent === row.parent ? row.grandparent : undefined);
    if (parent !== row.parent || grandparent !== row.grandparent)
      relinked.set(row.seq, { ...row, parent, grandparent });
  }
  return relinked;
}

function alwaysSaving(sessionId: string, tries: number, cause: unknown): SavepointError<"BUSY"> {
  return new SavepointError(
    "BUSY",
    `Checkpoints of ${describeSession(sessionId)} could not be removed: others saved each of ${tries} times. Try again; nothing was removed.`,
    { cause },
  );
}

/** What needs a checkpoint, for messages that mention the checkpoint first. */
export function describeNeed(need: NeededBy): string {
  switch (need.kind) {
    case "checkpoint":
      return `checkpoint #${need.seq} is in the middle of a step that begins with it`;
    case "branch":
      return `branch ${JSON.stringify(need.branch)} starts from it`;
    case "run":
      return `the run on branch ${JSON.stringify(need.branch)} resumes from it`;
    case "rewind":
      return `it is the state before the last rewind of branch ${JSON.stringify(need.branch)}`;
    case "damage":
      return need.detail;
  }
}

/** A checkpoint that cannot be removed, and why. */
export function stillNeeded(sessionId: string, row: CheckpointRow, why: string): SavepointError<"CONFLICT"> {
  return new SavepointError(
    "CONFLICT",
    `Checkpoint ${row.id} of ${describeSession(sessionId)} cannot be deleted: ${why}.`,
    { details: { checkpointId: row.id } },
  );
}
