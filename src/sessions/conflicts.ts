/**
 * Conflicts between writers of a session: the checks that a commit makes, and which of them failed.
 *
 * Checks carry a tag, and a `CONFLICT` reports the tags of the checks that failed. The builder of a check and the
 * function that recognises a failure of that check stay together here. What a save does after a conflict is decided in
 * branch-cursor.ts.
 */
import { SavepointError } from "../errors.js";
import { type CheckpointRow, idKey, rowKey } from "../records/index.js";
import type { Check } from "../store/index.js";
import type { Heads } from "./reader.js";

/** What a check protects. */
const TAG = { checkpoint: "checkpoint", id: "checkpoint id", run: "run", extension: "extension" } as const;

/** Checks that a checkpoint has not been removed. */
export function checkRowExists(number: number, seq: number): Check {
  return { key: rowKey(number, seq), exists: true, tag: TAG.checkpoint };
}

/** Whether the conflict occurred because a checkpoint was removed. */
export function isCheckpointRemoved(conflict: SavepointError): boolean {
  return hasTag(conflict, TAG.checkpoint);
}

/** Checks that no checkpoint of the session has this id. */
export function checkIdUnused(id: string, number: number): Check {
  return { key: idKey(id, number), value: undefined, tag: TAG.id };
}

/** Whether the conflict occurred because another checkpoint has the id. If so, a retry fails again. */
export function isIdTaken(conflict: SavepointError): boolean {
  return hasTag(conflict, TAG.id);
}

/** Checks that a record of a run is unchanged. */
export function checkRunRecord(key: string, value: string | undefined): Check {
  return { key, value, tag: TAG.run };
}

/** Whether the conflict occurred on a record of a run. If so, the run has lost its lease or is cancelled. */
export function isFenced(conflict: SavepointError): boolean {
  return hasTag(conflict, TAG.run);
}

/** Tags the checks that a caller adds to a save, to distinguish their failures from those of the save's own checks. */
export function tagExtension(checks: readonly Check[]): Check[] {
  return checks.map((check) => (check.tag === undefined ? { ...check, tag: TAG.extension } : check));
}

/** Whether the conflict occurred on a check that a caller added to the save. If so, a retry fails again. */
export function isExtensionConflict(conflict: SavepointError): boolean {
  return hasTag(conflict, TAG.extension) || hasTag(conflict, TAG.run);
}

/** The error for annotations of a checkpoint that is not the head any more. */
export function notHead(seq: number): SavepointError<"CONFLICT"> {
  return new SavepointError("CONFLICT", `Checkpoint #${seq} is not the head of the branch any more.`, {
    details: { tags: [TAG.extension] },
  });
}

/** Whether the conflict occurred on this record. */
export function isConflictOn(conflict: SavepointError, key: string): boolean {
  return ((conflict.details["keys"] as readonly string[] | undefined) ?? []).includes(key);
}

function hasTag(conflict: SavepointError, tag: string): boolean {
  return ((conflict.details["tags"] as readonly string[] | undefined) ?? []).includes(tag);
}

/** The error for a branch whose head is not the one that the writer knows. */
export function branchMoved(sessionId: string, branch: string, heads: Heads): SavepointError<"CONFLICT"> {
  const head = heads.branch?.record.head;
  return new SavepointError(
    "CONFLICT",
    `Another writer has moved branch ${JSON.stringify(branch)} of session ${JSON.stringify(sessionId)} to ${head ? `#${head.seq}` : "no checkpoint"} since this handle last read it. Call latest() and save on top of it, or fork.`,
    { details: { sessionId, branch, head: head?.id } },
  );
}

/** The error for an id that another checkpoint of the session has. */
export function idTaken(id: string, number: number): SavepointError<"CONFLICT"> {
  return new SavepointError("CONFLICT", `A checkpoint with the id ${JSON.stringify(id)} already exists.`, {
    details: { keys: [idKey(id, number)], tags: [TAG.id] },
  });
}

/** The error for a new branch whose tape another new branch has claimed. */
export function tapeTaken(branch: string): SavepointError<"CONFLICT"> {
  return new SavepointError("CONFLICT", `Another branch was created before ${JSON.stringify(branch)}.`);
}

/** The error for a checkpoint that was removed during an operation on it. */
export function checkpointRemoved(row: CheckpointRow, cause: unknown): SavepointError<"CHECKPOINT_NOT_FOUND"> {
  return new SavepointError("CHECKPOINT_NOT_FOUND", `Checkpoint ${row.id} was removed by another writer.`, { cause });
}
