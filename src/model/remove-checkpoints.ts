/**
 * Removing single checkpoints of a session, or of an agent. Those that follow them are linked to those before them, in
 * the same commit. Their items are freed by the next collection.
 */
import { isSavepointError, SavepointError } from "../errors.js";
import type { Commit, Put } from "../store/store.js";
import { branchKey, idKey, journalKey, labelKey, notesOf, rowKey, sessionKey } from "./keys.js";
import { type BranchRecord, encodeBranch, encodeRow, encodeSession, type Row, type SessionRecord } from "./records.js";
import { decodeJournal } from "./run-records.js";
import { describeSession } from "./session-errors.js";
import type { Known, Notes, SessionReader } from "./session-reader.js";

/** All that is known of the checkpoints of a session. */
export interface Checkpoints {
  readonly session: Known<SessionRecord>;
  readonly branches: readonly Known<BranchRecord>[];
  /** In the order of their seqs; those that cannot be read are not among them. */
  readonly rows: readonly Row[];
  readonly notes: ReadonlyMap<number, Notes>;
  /** Why a checkpoint must stay, by seq. */
  readonly needed: ReadonlyMap<number, string>;
}

/** What is to go, and what else becomes of the branches. */
export interface Removal {
  readonly rows: readonly Row[];
  readonly branches?: readonly BranchRecord[];
}

/** Somebody saves at the same time, again and again. */
const MAX_TRIES = 50;

/**
 * Removes what `choose` says of the checkpoints that are there. It is asked again if they change meanwhile.
 *
 * @returns the checkpoints that were removed
 */
export async function removeCheckpoints(
  reader: SessionReader,
  choose: (checkpoints: Checkpoints) => Removal,
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
      if (!isSavepointError(error, "CONFLICT") || tries === MAX_TRIES) throw error;
    }
  }
}

/**
 * Removes the oldest of the checkpoints that were taken by themselves, if there are more than `max` of them. It is done
 * after a save that has succeeded: where somebody else is always faster, the next save does it.
 *
 * @returns whether any was removed
 */
export async function pruneAutomatic(reader: SessionReader, max: number): Promise<boolean> {
  try {
    const removed = await removeCheckpoints(reader, (all) => ({ rows: beyondLimit(all, max) }));
    return removed.length > 0;
  } catch (error) {
    if (isSavepointError(error, "CONFLICT")) return false;
    const message = `automatic checkpoints of ${describeSession(reader.sessionId)} could not be removed`;
    reader.context.events.emit("backgroundFailure", { message, error });
    return false;
  }
}

function beyondLimit({ rows, notes, needed }: Checkpoints, max: number): Row[] {
  const automatic = rows.filter(({ kind }) => kind === "automatic" || kind === "preOperation");
  const removable = automatic.filter((row) => !needed.has(row.seq) && !isPinned(row, notes.get(row.seq)));
  return removable.slice(0, Math.max(0, automatic.length - max));
}

function isPinned(row: Row, notes: Notes | undefined): boolean {
  const pin = notes?.get("pin");
  return pin === undefined ? row.pinned : pin === "1";
}

async function readCheckpoints(reader: SessionReader): Promise<Checkpoints | undefined> {
  const session = await reader.session();
  if (!session) return undefined;
  const { number } = session.record;
  const branches: Known<BranchRecord>[] = [];
  for await (const branch of reader.branches()) branches.push(branch);
  const rows: Row[] = [];
  for await (const row of reader.allRows(number, false)) if (!("unreadable" in row)) rows.push(row);
  const notes = await reader.notes(number, 0, session.record.nextSeq);
  const needed = await findNeeded(reader, branches, rows);
  return { session, branches, rows, notes, needed };
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
  }
  for (const { record } of branches) {
    need(record.from, `branch ${JSON.stringify(record.name)} starts from it`);
    need(record.head?.seq, `it is the head of branch ${JSON.stringify(record.name)}`);
  }
  return needed;
}

function toCommit(reader: SessionReader, checkpoints: Checkpoints, removal: Removal): Commit {
  const { session, notes } = checkpoints;
  const { sessionId } = reader;
  const { number } = session.record;
  const relinked = relink(checkpoints.rows, removal.rows);
  const changed = new Map((removal.branches ?? []).map((branch) => [branch.name, branch]));
  const puts: Put[] = [...relinked.values()].map((row) => ({
    key: rowKey(number, row.seq),
    value: encodeRow(row),
    refs: row.skeleton.refs,
  }));
  for (const { record, value } of checkpoints.branches) {
    const branch = changed.get(record.name) ?? record;
    const head = branch.head && relink([...checkpoints.rows, branch.head], removal.rows).get(branch.head.seq);
    const parent = head && checkpoints.rows.find(({ seq }) => seq === head.parent);
    const next = encodeBranch(head ? { ...branch, head, headParentId: parent?.id } : branch);
    if (next !== value) puts.push({ key: branchKey(sessionId, branch.name), value: next });
  }
  const left = Math.max(0, session.record.checkpoints - removal.rows.length);
  puts.push({ key: sessionKey(sessionId), value: encodeSession({ ...session.record, checkpoints: left }) });
  return {
    checks: [
      { key: sessionKey(sessionId), value: session.value },
      ...checkpoints.branches.map(({ record, value }) => ({ key: branchKey(sessionId, record.name), value })),
    ],
    deletes: removal.rows.flatMap((row) => {
      const label = notes.get(row.seq)?.get("label") ?? row.label;
      return [
        rowKey(number, row.seq),
        notesOf(number, row.seq, row.seq + 1),
        idKey(row.id, number),
        ...(label ? [labelKey(number, label, row.seq)] : []),
      ];
    }),
    puts,
  };
}

/** Those of the rows that stay whose parent or grandparent goes, with the next ones that stay in their place. */
function relink(rows: readonly Row[], removed: readonly Row[]): Map<number, Row> {
  const gone = new Map(removed.map((row) => [row.seq, row]));
  const all = new Map(rows.map((row) => [row.seq, row]));
  const staying = (seq: number | undefined): number | undefined => {
    let at = seq;
    for (
      let row = at === undefined ? undefined : gone.get(at);
      row;
      row = at === undefined ? undefined : gone.get(at)
    ) {
      at = row.parent;
    }
    return at;
  };
  const relinked = new Map<number, Row>();
  for (const row of all.values()) {
    if (gone.has(row.seq)) continue;
    const parent = staying(row.parent);
    const known = parent === undefined ? undefined : all.get(parent);
    // What is before a row that cannot be read, only the row itself can say.
    const grandparent = staying(known ? known.parent : parent === row.parent ? row.grandparent : undefined);
    if (parent !== row.parent || grandparent !== row.grandparent)
      relinked.set(row.seq, { ...row, parent, grandparent });
  }
  return relinked;
}

/** A checkpoint that cannot be removed, and why. */
export function stillNeeded(sessionId: string, row: Row, why: string): SavepointError<"CONFLICT"> {
  return new SavepointError(
    "CONFLICT",
    `Checkpoint ${row.id} of ${describeSession(sessionId)} cannot be deleted: ${why}.`,
    { details: { checkpointId: row.id } },
  );
}
