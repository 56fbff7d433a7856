/** What a save reads after its commit has failed with a conflict. */
import { SavepointError } from "../errors.js";
import type { CheckpointInfo, SessionRecord } from "../records/index.js";
import { equalsShadow, type Shadow, shadowToValue } from "../state/index.js";
import { checkRowExists, isCheckpointRemoved, isExtensionConflict, isIdTaken } from "./conflicts.js";
import { describeBranch } from "./errors.js";
import { loadShadow } from "./load-state.js";
import type { BranchSnapshot } from "./plan-save.js";
import type { LoadedRecord, SessionReader } from "./reader.js";
import { matchesSaveFields, type SaveFields } from "./save-options.js";

/** If a commit conflicts this often although its records are unchanged, they disagree with the store. */
const MAX_TRIES = 10;

/**
 * Reads the session record for the next attempt, with the next seq, if only other branches caused the conflict. Throws the conflict
 * otherwise.
 *
 * @param snapshot what the commit was planned from
 * @param tries the number of attempts so far
 */
export async function readAfterConflict(
  reader: SessionReader,
  conflict: SavepointError,
  { name, number, session: sessionBefore, branch: branchBefore, planned }: BranchSnapshot,
  tries: number,
): Promise<LoadedRecord<SessionRecord> | undefined> {
  const { session, branch } = await reader.heads(name);
  const moved = branch?.value !== branchBefore?.value || (session?.record.number ?? number) !== number;
  const gone = (!session && sessionBefore !== undefined) || isCheckpointRemoved(conflict);
  const tapeTaken = planned !== undefined && session?.record.nextTape !== planned.tape;
  if (moved || gone || isIdTaken(conflict) || isExtensionConflict(conflict) || tapeTaken) throw conflict;
  if (session?.value !== sessionBefore?.value || tries < MAX_TRIES) return session;
  throw new SavepointError(
    "DAMAGED",
    `${describeBranch(reader.sessionId, name)} cannot be saved: its records disagree with the store. Run sp.repair().`,
    { cause: conflict },
  );
}

/**
 * Finds the checkpoint with the id of these fields, which exists if the save is a retry. Returns `undefined` if it does not exist.
 *
 * @throws `CONFLICT` if it has other content
 */
export async function findSavedCheckpoint(
  reader: SessionReader,
  branchName: string,
  shadow: Shadow,
  fields: SaveFields,
): Promise<CheckpointInfo | undefined> {
  const { registry, store } = reader.context;
  if (fields.id === undefined) return undefined;
  const { session } = await reader.heads(branchName);
  const row = session && (await reader.find(session.record.number, fields.id, undefined));
  if (!session || row?.id !== fields.id) return undefined;
  const saved = await loadShadow(reader, session.record.number, row);
  const info = await reader.loadInfo(session.record.number, row, session.record.agent);
  if (equalsShadow(saved, shadowToValue(shadow, registry), registry) && matchesSaveFields(row, info.parentId, fields)) {
    // Its writer may not have made it durable yet, or may have failed to. This commit makes it durable, or fails.
    await store.commit({ checks: [checkRowExists(session.record.number, row.seq)] });
    return info;
  }
  throw new SavepointError(
    "CONFLICT",
    `Checkpoint ${JSON.stringify(fields.id)} already exists with other content. Save under another id.`,
  );
}
