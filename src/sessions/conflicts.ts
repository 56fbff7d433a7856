/**
 * Conflicts between writers of a session: the checks that a commit makes, and which of them failed.
 *
 * Every check of a kind is built here, so that its builder and the function that recognises its failure stay together.
 */
import { SavepointError } from "../errors.js";
import { type CheckpointRow, idKey, rowKey } from "../records/index.js";
import type { Check } from "../store/index.js";
import type { Heads } from "./reader.js";

/** Checks that a checkpoint has not been removed. */
export function checkRowExists(number: number, seq: number): Check {
  return { key: rowKey(number, seq), exists: true };
}

/** Did the conflict occur because a checkpoint was removed? */
export function isCheckpointRemoved(conflict: SavepointError): boolean {
  return failedKeys(conflict).some((key) => key.startsWith("z"));
}

/** Checks that no checkpoint of the session has this id. */
export function checkIdUnused(id: string, number: number): Check {
  return { key: idKey(id, number), value: undefined };
}

/** Did the conflict occur because another checkpoint has the id? Then a retry fails again. */
export function isIdTaken(conflict: SavepointError): boolean {
  return failedKeys(conflict).some((key) => key.startsWith("i"));
}

/** Did the conflict occur on a record of a run? Then the run has lost its lease or is cancelled. */
export function isFenced(conflict: SavepointError): boolean {
  return failedKeys(conflict).some((key) => key.startsWith("r\t"));
}

/** Did the conflict occur on a record of a run, its queue, its owner or a conversation? Then a retry fails again. */
export function isExtensionConflict(conflict: SavepointError): boolean {
  return failedKeys(conflict).some((key) => /^(?:[crq]\t|h)/.test(key));
}

/** Did the conflict occur on this record? */
export function isConflictOn(conflict: SavepointError, key: string): boolean {
  return failedKeys(conflict).includes(key);
}

function failedKeys(conflict: SavepointError): readonly string[] {
  return (conflict.details["keys"] as readonly string[] | undefined) ?? [];
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
    details: { keys: [idKey(id, number)] },
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
