/** Labels and pins that are attached to a checkpoint after it was saved. */
import { isSavepointError, SavepointError } from "../errors.js";
import { isCheckpointRemoved } from "./conflicts.js";
import { checkId, labelKey, noteKey, type CheckpointRow, rowKey } from "../records/index.js";
import type { SessionReader } from "./reader.js";

export async function setLabel(
  reader: SessionReader,
  number: number,
  row: CheckpointRow,
  label: string | undefined,
): Promise<void> {
  if (label !== undefined) checkId(label, "label");
  const key = noteKey(number, row.seq, "label");
  for (;;) {
    const [known] = await reader.context.store.get([key]);
    const before = known && "value" in known ? known.value : undefined;
    const oldLabel = before ?? row.label;
    const applied = await commitNote(reader, row, {
      checks: [
        { key: rowKey(number, row.seq), exists: true },
        { key, value: before },
      ],
      deletes: oldLabel ? [labelKey(number, oldLabel, row.seq)] : [],
      puts: [
        { key, value: label ?? "" },
        ...(label === undefined ? [] : [{ key: labelKey(number, label, row.seq), value: String(row.seq) }]),
      ],
    });
    if (applied) return;
  }
}

export async function setPin(
  reader: SessionReader,
  number: number,
  row: CheckpointRow,
  pinned: boolean,
): Promise<void> {
  await commitNote(reader, row, {
    checks: [{ key: rowKey(number, row.seq), exists: true }],
    puts: [{ key: noteKey(number, row.seq, "pin"), value: pinned ? "1" : "0" }],
  });
}

export type NoteCommit = Parameters<SessionReader["context"]["store"]["commit"]>[0];

/** `false` where another writer attached something first. */
export async function commitNote(reader: SessionReader, row: CheckpointRow, commit: NoteCommit): Promise<boolean> {
  try {
    await reader.context.store.commit(commit);
    return true;
  } catch (error) {
    if (!isSavepointError(error, "CONFLICT")) throw error;
    if (isCheckpointRemoved(error)) {
      throw new SavepointError("CHECKPOINT_NOT_FOUND", `Checkpoint ${row.id} was removed meanwhile.`, { cause: error });
    }
    return false;
  }
}
