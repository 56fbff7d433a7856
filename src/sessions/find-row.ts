/** Finding the checkpoint of a session that a caller names. */
import { isSavepointError } from "../errors.js";
import type { CheckpointRef, CheckpointRow } from "../records/index.js";
import type { Heads, SessionReader } from "./reader.js";

/** A checkpoint that was looked for. */
export interface RowMatch {
  readonly number: number;
  readonly row: CheckpointRow;
  readonly agent: string | undefined;
  /** Has it no row of its own? */
  readonly hidden: boolean;
}

export async function findRow(
  reader: SessionReader,
  readHeads: () => Promise<Heads>,
  ref: CheckpointRef,
): Promise<RowMatch | undefined> {
  try {
    const { session, branch } = await readHeads();
    if (!session) return undefined;
    const { number, agent } = session.record;
    const row = await reader.find(number, ref, branch?.record.head);
    const hidden = branch?.record.hidden === true && row?.seq === branch.record.head?.seq;
    return row && { number, row, agent, hidden };
  } catch (error) {
    if (!isSavepointError(error, "DAMAGED")) throw error;
    const found = await salvage(reader, ref);
    if (!found) throw error;
    return found;
  }
}

/** Where the session's or the branch's own record is damaged, checkpoints that are named by themselves are still found. */
async function salvage(reader: SessionReader, ref: CheckpointRef): Promise<RowMatch | undefined> {
  if (typeof ref === "object" && "step" in ref) return undefined;
  const number = await reader.scanForNumber();
  const row = number === undefined ? undefined : await reader.find(number, ref, undefined);
  return row && number !== undefined ? { number, row, agent: undefined, hidden: false } : undefined;
}
