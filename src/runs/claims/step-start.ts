/** What a step starts with: the state of its boundary, and the effects that earlier attempts of the step have recorded. */
import { type BranchCursor, loadShadow, type SessionReader } from "../../sessions/index.js";
import type { CheckpointRow, JournalRecord } from "../../records/index.js";
import type { Shadow } from "../../state/index.js";
import { type JournalOperation, JointReader, readEntries, type StoredResult } from "../journal/index.js";

export interface StepStart {
  readonly shadow: Shadow;
  readonly entries: readonly JournalOperation[];
  /** The results that are stored as items. A state that contains one refers to it. */
  readonly results: readonly StoredResult[];
}

/**
 * Loads what a step starts with. A state that the cursor has cached is not read again; otherwise the first items of the state and
 * the journal are read together. Throws `DAMAGED`.
 *
 * @param row the checkpoint with which the step starts
 * @param journal its entries belong to the step
 */
export async function loadStepStart(
  reader: SessionReader,
  cursor: BranchCursor,
  number: number,
  row: CheckpointRow,
  { tape, first, count }: JournalRecord,
): Promise<StepStart> {
  const journal = { tape, start: first, count };
  const state = new JointReader(reader.stateReader(number), journal);
  const shadow = cursor.shadowOf(number, row) ?? (await loadShadow(reader, number, row, undefined, state));
  const { entries, results } = await readEntries(reader, number, journal, state.rest);
  return { shadow, entries, results };
}
