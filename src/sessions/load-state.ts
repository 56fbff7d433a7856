/** Loading the state of a checkpoint. */
import { isSavepointError, SavepointError } from "../errors.js";
import { decodeState, type Hole, type Shadow } from "../state/index.js";
import type { CheckpointRow } from "../records/index.js";
import { describeSession } from "./errors.js";
import type { SessionReader } from "./reader.js";

/**
 * Loads the shadow of a checkpoint's state. Damage throws `DAMAGED`, or is recorded in `holes` if that is passed.
 *
 * If a part is missing and the checkpoint still exists, the state is read a second time: items that are freed or packed
 * during the first read are not damaged.
 */
export async function loadShadow(
  reader: SessionReader,
  number: number,
  row: CheckpointRow,
  holes?: Hole[],
): Promise<Shadow> {
  const read = (into?: Hole[]): Promise<Shadow> =>
    decodeState(row.skeleton, row.tape, reader.stateReader(number), into);
  let cause: unknown;
  try {
    const lost: Hole[] = [];
    const shadow = await read(holes && lost);
    if (lost.length === 0) return shadow;
  } catch (error) {
    if (!isSavepointError(error, "DAMAGED")) throw error;
    cause = error;
  }
  if (!(await reader.row(number, row.seq))) {
    throw new SavepointError("CHECKPOINT_NOT_FOUND", `Checkpoint ${row.id} was removed while it was being read.`, {
      cause,
    });
  }
  try {
    return await read(holes);
  } catch (error) {
    if (!isSavepointError(error, "DAMAGED")) throw error;
    throw new SavepointError(
      "DAMAGED",
      `Checkpoint #${row.seq} of ${describeSession(reader.sessionId)} (${row.id}) is damaged. ${error.message} Load another checkpoint, or load this one with { partial: true }.`,
      { cause: error, details: { ...error.details, checkpointId: row.id } },
    );
  }
}
