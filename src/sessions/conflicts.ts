/** Errors of writers that met. */
import { SavepointError } from "../errors.js";
import { idKey } from "../records/index.js";
import type { Heads } from "./reader.js";

/** The error for a branch that has another head than it was thought to have. */
export function branchMoved(sessionId: string, branch: string, heads: Heads): SavepointError<"CONFLICT"> {
  const head = heads.branch?.record.head;
  return new SavepointError(
    "CONFLICT",
    `Another writer has moved branch ${JSON.stringify(branch)} of session ${JSON.stringify(sessionId)} to ${head ? `#${head.seq}` : "no checkpoint"} since this handle last looked. Call latest() and save on top of it, or fork.`,
    { details: { sessionId, branch, head: head?.id } },
  );
}

/** The error for an id that another checkpoint of the session has. */
export function idTaken(id: string, number: number): SavepointError<"CONFLICT"> {
  return new SavepointError("CONFLICT", `There is a checkpoint with the id ${JSON.stringify(id)} already.`, {
    details: { keys: [idKey(id, number)] },
  });
}

/** The error for a branch that was planned on a tape that is another's by now. */
export function tapeTaken(branch: string): SavepointError<"CONFLICT"> {
  return new SavepointError("CONFLICT", `Another branch was opened before ${JSON.stringify(branch)}.`);
}

/** Was it the id of a checkpoint that a commit failed over? Trying again would fail again. */
export function isIdTaken(conflict: SavepointError): boolean {
  return failedKeys(conflict).some((key) => key.startsWith("i"));
}

/** Was it a checkpoint to build on that is gone? */
export function isCheckpointRemoved(conflict: SavepointError): boolean {
  return failedKeys(conflict).some((key) => key.startsWith("z"));
}

/** Has a run lost the right to write, or is it to stop? */
export function isFenced(conflict: SavepointError): boolean {
  return failedKeys(conflict).some((key) => key.startsWith("r\t"));
}

/** Was it something that whoever saves has looked at beside the session itself? Saving it again would fail again. */
export function isExtensionConflict(conflict: SavepointError): boolean {
  return failedKeys(conflict).some((key) => /^(?:[crq]\t|h)/.test(key));
}

/** Was it this record that a commit failed over? */
export function isConflictOn(conflict: SavepointError, key: string): boolean {
  return failedKeys(conflict).includes(key);
}

function failedKeys(conflict: SavepointError): readonly string[] {
  return (conflict.details["keys"] as readonly string[] | undefined) ?? [];
}
