/** Labels, pins and statuses that are set after a checkpoint was saved. They override those of its row. */
import { isSavepointError } from "../errors.js";
import type { Commit } from "../store/index.js";
import { retryOnConflict } from "../util/index.js";
import { type CheckpointRow, checkId, labelKey, noteKey } from "../records/index.js";
import { checkpointRemoved, checkRowExists, isCheckpointRemoved } from "./conflicts.js";
import type { SessionReader } from "./reader.js";

/** Sets the label of a checkpoint; `undefined` removes it. */
export async function setLabel(
  reader: SessionReader,
  number: number,
  row: CheckpointRow,
  label: string | undefined,
): Promise<void> {
  if (label !== undefined) checkId(label, "label");
  const key = noteKey(number, row.seq, "label");
  await retryOnConflict(async () => {
    const [record] = await reader.context.store.get([key]);
    const before = record && "value" in record ? record.value : undefined;
    const oldLabel = before ?? row.label;
    await commitNote(reader, row, {
      checks: [checkRowExists(number, row.seq), { key, value: before }],
      deletes: oldLabel ? [labelKey(number, oldLabel, row.seq)] : [],
      puts: [
        { key, value: label ?? "" },
        ...(label === undefined ? [] : [{ key: labelKey(number, label, row.seq), value: String(row.seq) }]),
      ],
    });
  });
}

/** Pins or unpins a checkpoint. */
export async function setPin(
  reader: SessionReader,
  number: number,
  row: CheckpointRow,
  pinned: boolean,
): Promise<void> {
  await commitNote(reader, row, {
    checks: [checkRowExists(number, row.seq)],
    puts: [{ key: noteKey(number, row.seq, "pin"), value: pinned ? "1" : "0" }],
  });
}

/** Commits a change of a note or an annotation. Fails with `CHECKPOINT_NOT_FOUND` if the checkpoint was removed. */
export async function commitNote(reader: SessionReader, row: CheckpointRow, commit: Commit): Promise<void> {
  try {
    await reader.context.store.commit(commit);
  } catch (error) {
    if (isSavepointError(error, "CONFLICT") && isCheckpointRemoved(error)) throw checkpointRemoved(row, error);
    throw error;
  }
}
