/** Plans a save, as a pure function: turns the stored branch and a change into one commit. */
import type { EncodedState, RecordedValues } from "../state/index.js";
import {
  type BranchRecord,
  type CheckpointPlace,
  type CheckpointRow,
  newBranchRecord,
  newSessionRecord,
  type RunPosition,
  type SessionRecord,
} from "../records/index.js";
import { buildCommit, type CommitParts, type SessionCommit } from "./commit.js";
import { buildRow } from "./new-row.js";
import type { LoadedRecord } from "./reader.js";
import type { SaveFields } from "./save-options.js";

/** A branch that a save continues. */
export interface BranchSnapshot {
  readonly sessionId: string;
  readonly name: string;
  /** The number of the session; the record does not exist before the first save. */
  readonly number: number;
  readonly session: LoadedRecord<SessionRecord> | undefined;
  /** The record of the branch, if the branch exists. */
  readonly branch: LoadedRecord<BranchRecord> | undefined;
  /** The branch that the save creates. */
  readonly planned: BranchRecord | undefined;
  /** The parent of the save, if that is not the head; `row` is `undefined` for no parent. */
  readonly moved: { readonly row: CheckpointRow | undefined } | undefined;
}

/** What a save adds to a branch. */
export interface BranchChange {
  readonly encoded: EncodedState;
  readonly fields: SaveFields;
  /** The agent that becomes the session's agent if it has none. */
  readonly agent: string | undefined;
  readonly extension: SaveExtension | undefined;
  /** Further parts of the commit. */
  readonly more?: CommitParts | undefined;
}

/** What a run, or a checkpoint of a whole agent, adds to a save. */
export interface SaveExtension {
  /** Save a head without a row: the next checkpoint replaces it in the history. */
  readonly hidden: boolean;
  /** The epoch of the branch after this save. */
  readonly epoch: number;
  readonly held: boolean;
  /** How many tapes the extension needs; `build` gets the number of the first one. */
  readonly tapes: number;
  /** Recorded results that the state refers to instead of storing a second copy. */
  readonly recorded?: RecordedValues;
  /** Builds the further parts of the commit, for the place of the new checkpoint. */
  build(place: CheckpointPlace & { readonly tape: number }): CommitParts & { readonly run?: RunPosition };
}

/** The commit of a save, and what is stored after it. */
export interface SavePlan extends SessionCommit {
  readonly row: CheckpointRow;
  readonly parentId: string | undefined;
}

/**
 * Plans the commit of a save.
 *
 * @param newId generates the id of the checkpoint at a place
 */
export function planSave(
  { sessionId, name, number, session, branch, planned, moved }: BranchSnapshot,
  { encoded, fields, agent, extension, more: otherParts }: BranchChange,
  now: number,
  newId: (place: CheckpointPlace) => string,
): SavePlan {
  const base = session?.record ?? newSessionRecord(number, now);
  const current = branch?.record ?? planned ?? newBranchRecord(name, 0, now);
  const parent: BranchRecord = moved ? { ...current, head: moved.row, hidden: false } : current;
  const nextTape = planned ? planned.tape + 1 : base.nextTape;
  const more = extension?.build({ number, seq: base.nextSeq, tape: nextTape });
  const row = buildRow({ number, seq: base.nextSeq, branch: parent }, encoded, fields, newId, now, more?.run);
  // A hidden head becomes part of the history when a checkpoint inside its step does.
  const stays = moved ? current.hidden : parent.hidden && row.parent === parent.head?.seq;
  const shown = stays ? current.head : undefined;
  const parentId = parent.hidden && !shown ? parent.headParentId : parent.head?.id;
  const rows = shown ? [shown] : [];
  if (!extension?.hidden) rows.push(row);
  const requiredRows: number[] = [];
  if (planned?.head) requiredRows.push(planned.head.seq);
  if (moved?.row) requiredRows.push(moved.row.seq);
  const built = buildCommit({
    sessionId,
    sessionBefore: session,
    session: {
      number,
      agent: base.agent ?? agent,
      createdAt: base.createdAt,
      nextSeq: base.nextSeq + 1,
      nextTape: nextTape + (extension?.tapes ?? 0),
      checkpoints: base.checkpoints,
      policy: base.policy,
      earliestExpiry: base.earliestExpiry,
    },
    branchBefore: branch,
    branch: {
      name: parent.name,
      tape: parent.tape,
      nextItem: parent.nextItem + encoded.items.length,
      epoch: extension?.epoch ?? parent.epoch,
      held: extension?.held ?? false,
      hidden: extension?.hidden ?? false,
      createdAt: parent.createdAt,
      forkedFrom: parent.forkedFrom,
      head: row,
      headParentId: parentId,
    },
    rows,
    items: encoded.items,
    blobs: encoded.blobs,
    requiredRows,
    hasChosenId: fields.id !== undefined,
    extension: more ?? otherParts,
  });
  return { ...built, row, parentId };
}
