/**
 * All checkpoints of a session, or of an agent, at one moment, with everything that decides which of them can be removed.
 */
import {
  type BranchRecord,
  type CheckpointRow,
  decodeJournal,
  journalKey,
  type SessionRecord,
} from "../records/index.js";
import { addToList, toArray } from "../util/index.js";
import { isIntact, type LoadedRecord, type Notes, type SessionReader } from "../sessions/index.js";

/** What needs a checkpoint. A checkpoint that is needed only by another checkpoint can be removed together with it. */
export type NeededBy =
  /** A checkpoint in the middle of a step that began with this one. */
  | { readonly kind: "checkpoint"; readonly id: string; readonly seq: number }
  /** A branch that was forked from it. */
  | { readonly kind: "branch"; readonly branch: string }
  /** The run on this branch: its current step began with this checkpoint, or its next one does. */
  | { readonly kind: "run"; readonly branch: string }
  /** The branch was rewound; this checkpoint is its state before that. */
  | { readonly kind: "rewind"; readonly branch: string }
  /** A damaged record that may need it. */
  | { readonly kind: "damage"; readonly detail: string };

/** The readable checkpoints of a session, and the records that refer to them. */
export interface CheckpointSet {
  readonly session: LoadedRecord<SessionRecord>;
  readonly branches: readonly LoadedRecord<BranchRecord>[];
  /** In ascending order of seq. Unreadable rows are left out, and so are never removed. */
  readonly rows: readonly CheckpointRow[];
  /** Pins and labels that were set after the save, by seq. */
  readonly notes: ReadonlyMap<number, Notes>;
  /** What needs a checkpoint, by seq. Being a head is not a need: see `heads`. */
  readonly needed: ReadonlyMap<number, readonly NeededBy[]>;
  /** The branches that have a checkpoint as their head, by seq. */
  readonly heads: ReadonlyMap<number, readonly BranchRecord[]>;
}

/** Reads all rows of a session, never its states. `undefined` if the session does not exist. */
export async function readCheckpointSet(reader: SessionReader): Promise<CheckpointSet | undefined> {
  const session = await reader.session();
  if (!session) return undefined;
  const { number } = session.record;
  const branches = await toArray(reader.branches());
  const rows = (await toArray(reader.allRows(number, false))).filter(isIntact);
  const needed = await findNeeds(reader, branches, rows);
  const notes = await reader.notes(number, 0, session.record.nextSeq, (seq) =>
    addToList(needed, seq, { kind: "damage", detail: "its notes cannot be read, so it may be pinned" }),
  );
  const heads = new Map<number, BranchRecord[]>();
  for (const { record } of branches) if (record.head) addToList(heads, record.head.seq, record);
  return { session, branches, rows, notes, needed, heads };
}

async function findNeeds(
  reader: SessionReader,
  branches: readonly LoadedRecord<BranchRecord>[],
  rows: readonly CheckpointRow[],
): Promise<Map<number, NeededBy[]>> {
  const needs = new Map<number, NeededBy[]>();
  for (const { run, id, seq } of rows) {
    if (run?.midStep) addToList(needs, run.boundary, { kind: "checkpoint", id, seq });
  }
  const keys = branches.map(({ record }) => journalKey(reader.sessionId, record.name));
  const journals = await reader.context.store.get(keys);
  for (const [index, { record }] of branches.entries()) {
    const branch = record.name;
    if (record.forkedFrom !== undefined) addToList(needs, record.forkedFrom, { kind: "branch", branch });
    const journal = journals[index];
    if (!journal) continue;
    if ("value" in journal) addToList(needs, decodeJournal(journal.value).boundary, { kind: "run", branch });
    else {
      const detail = `the run record of branch ${JSON.stringify(branch)} is damaged, and its step may begin with it`;
      for (const { seq } of rows) addToList(needs, seq, { kind: "damage", detail });
    }
  }
  return needs;
}

/** Returns whether a checkpoint is pinned. A pin that was set or removed after the save takes precedence. */
export function isPinned({ notes }: CheckpointSet, row: CheckpointRow): boolean {
  const pin = notes.get(row.seq)?.get("pin");
  return pin === undefined ? row.pinned : pin === "1";
}

/** Returns whether a checkpoint has a label. A label that was set or removed after the save takes precedence. */
export function isLabelled({ notes }: CheckpointSet, row: CheckpointRow): boolean {
  return Boolean(notes.get(row.seq)?.get("label") ?? row.label);
}

/** A need as a clause about a checkpoint that was mentioned before, such as `branch "b" starts from it`. */
export function describeNeed(need: NeededBy): string {
  switch (need.kind) {
    case "checkpoint":
      return `checkpoint #${need.seq} is in the middle of a step that begins with it`;
    case "branch":
      return `branch ${JSON.stringify(need.branch)} starts from it`;
    case "run":
      return `the current step or the next turn of the run on branch ${JSON.stringify(need.branch)} begins with it`;
    case "rewind":
      return `it is the state before the last rewind of branch ${JSON.stringify(need.branch)}`;
    case "damage":
      return need.detail;
  }
}
