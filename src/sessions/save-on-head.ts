/** Saving on top of a checkpoint that the caller names. */
import { SavepointError } from "../errors.js";
import type { Shadow } from "../state/index.js";
import type { BranchCursor } from "./branch-cursor.js";
import type { CheckpointInfo, CheckpointRow } from "../records/index.js";
import type { SaveFields } from "./save-options.js";
import type { Heads } from "./reader.js";

/** Saves on top of `row` if it is the head of the branch, and stays it; `undefined` if not. */
export async function saveOnHead(
  cursor: BranchCursor,
  number: number,
  row: CheckpointRow,
  copy: Shadow,
  options: SaveFields,
  agent: string | undefined,
): Promise<CheckpointInfo | undefined> {
  const isHead = ({ session, branch }: Heads): boolean =>
    session?.record.number === number && branch?.record.head?.id === row.id;
  if (!isHead(await cursor.refresh())) return undefined;
  let moved = false;
  const admit = (heads: Heads): void => {
    moved = !isHead(heads);
    if (moved) throw new SavepointError("CONFLICT", `Another writer has moved the branch on from ${row.id}.`);
  };
  try {
    return await cursor.save({ copy }, options, { agent, admit });
  } catch (error) {
    if (moved) return undefined;
    throw error;
  }
}
