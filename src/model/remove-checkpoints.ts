/**
 * Removing single checkpoints of a session, or of an agent. Those that follow them are linked to those before them, in
 * the same commit. Their items are freed by the next collection.
 */
import { isSavepointError, SavepointError } from "../errors.js";
import type { Commit, Put } from "../store/store.js";
import { attachmentsOf, branchKey, idKey, journalKey, labelKey, noteKey, rowKey, sessionKey } from "./keys.js";
import {
  type BranchRecord,
  encodeBranch,
  encodeRow,
  encodeSession,
  firstExpiry,
  type Row,
  type SessionRecord,
} from "./records.js";
import { decodeJournal } from "./run-records.js";
import { describeSession } from "./session-errors.js";
import type { Known, Notes, SessionReader } from "./session-reader.js";

/** All that is known of the checkpoints of a session. */
export interface KnownCheckpoints {
  readonly session: Known<SessionRecord>;
  readonly branches: readonly Known<BranchRecord>[];
  /** In the order of their seqs; those that cannot be read are not among them. */
  readonly rows: readonly Row[];
  readonly notes: ReadonlyMap<number, Notes>;
  /** Why a checkpoint must stay, by seq; beside being a head. */
  readonly needed: ReadonlyMap<number, string>;
  /** The branches that have a checkpoint as their head, by seq. */
  readonly heads: ReadonlyMap<number, readonly BranchRecord[]>;
}

/** What is to go, and what else becomes of the branches. */
export interface Removal {
  readonly rows: readonly Row[];
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
  choose: (checkpoints: KnownCheckpoints) => Removal,
  maxTries = MAX_TRIES,
): Promise<readonly Row[]> {
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

export function isPinned(row: Row, notes: Notes | undefined): boolean {
  const pin = notes?.get("pin");
  return pin === undefined ? row.pinned : pin === "1";
}

async function readCheckpoints(reader: SessionReader): Promise<KnownCheckpoints | undefined> {
  const session = await reader.session();
  if (!session) return undefined;
  const { number } = session.record;
  const branches: Known<BranchRecord>[] = [];
  for await (const branch of reader.branches()) branches.push(branch);
  const rows: Row[] = [];
  for await (const row of reader.allRows(number, false)) if (!("unreadable" in row)) rows.push(row);
  const needed = await findNeeded(reader, branches, rows);
  // Whether it is pinned nobody can tell.
  const keep = (seq: number): void => void needed.set(seq, "what is attached to it cannot be read");
  const notes = await reader.notes(number, 0, session.record.nextSeq, keep);
  const heads = new Map<number, BranchRecord[]>();
  for (const { record } of branches) {
    if (record.head) heads.set(record.head.seq, [...(heads.get(record.head.seq) ?? []), record]);
  }
  return { session, branches, rows, notes, needed, heads };
}

async function findNeeded(
  reader: SessionReader,
  branches: readonly Known<BranchRecord>[],
  rows: readonly Row[],
): Promise<Map<number, string>> {
  const needed = new Map<number, string>();
  const need = (seq: number | undefined, why: string): void => {
    if (seq !== undefined) needed.set(seq, why);
  };
  for (const { run } of rows)
    if (run?.midStep) need(run.boundary, "a checkpoint in the middle of a step begins with it");
  const keys = branches.map(({ record }) => journalKey(reader.sessionId, record.name));
  for (const journal of await reader.context.store.get(keys)) {
    if (journal && "value" in journal) need(decodeJournal(journal.value).boundary, "an unfinished step begins with it");
    else if (journal) for (const { seq } of rows) need(seq, "a run's record is damaged, and may begin with it");
  }
  for (const { record } of branches) need(record.from, `branch ${JSON.stringify(record.name)} starts from it`);
  return needed;
}

function toCommit(reader: SessionReader, checkpoints: KnownCheckpoints, removal: Removal): Commit {
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
  const expires = firstExpiry(checkpoints.rows.filter(({ seq }) => !gone.has(seq)));
  puts.push({ key: sessionKey(sessionId), value: encodeSession({ ...session.record, checkpoints: left, expires }) });
  return {
    checks: [
      { key: sessionKey(sessionId), value: session.value },
      ...checkpoints.branches.map(({ record, value }) => ({ key: branchKey(sessionId, record.name), value })),
      // One that somebody has pinned or labelled meanwhile is another matter.
      ...removal.rows.flatMap(({ seq }) =>
        ["pin", "label"].map((name) => ({ key: noteKey(number, seq, name), value: notes.get(seq)?.get(name) })),
      ),
    ],
    deletes: removal.rows.flatMap((row) => {
      const label = notes.get(row.seq)?.get("label") ?? row.label;
      return [
        rowKey(number, row.seq),
        // None has come since: that is checked. What cannot be read is of one that stays.
        ...[...(notes.get(row.seq)?.keys() ?? [])].map((name) => noteKey(number, row.seq, name)),
        attachmentsOf(number, row.seq, row.seq + 1),
        idKey(row.id, number),
        ...(label ? [labelKey(number, label, row.seq)] : []),
      ];
    }),
    puts,
  };
}

/** Those of the rows that stay whose parent or grandparent goes, with the next ones that stay in their place. */
function relink(rows: ReadonlyMap<number, Row>, removed: readonly Row[]): Map<number, Row> {
  const gone = new Map(removed.map((row) => [row.seq, row]));
  const staying = (seq: number | undefined): number | undefined => {
    let at = seq;
    while (at !== undefined && gone.has(at)) at = gone.get(at)?.parent;
    return at;
  };
  const relinked = new Map<number, Row>();
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

/** A checkpoint that cannot be removed, and why. */
export function stillNeeded(sessionId: string, row: Row, why: string): SavepointError<"CONFLICT"> {
  return new SavepointError(
    "CONFLICT",
    `Checkpoint ${row.id} of ${describeSession(sessionId)} cannot be deleted: ${why}.`,
    { details: { checkpointId: row.id } },
  );
}
