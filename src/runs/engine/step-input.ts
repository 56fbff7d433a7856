/** What a step starts with: the state of its boundary checkpoint, and the entries of its journal. */
import { loadShadow, type SessionReader } from "../../sessions/index.js";
import type { CheckpointRow, JournalRecord } from "../../records/index.js";
import { type Shadow, shadowToValue } from "../../state/index.js";
import type { Claim } from "../claims/index.js";
import { type JournalOperation, leaseLost, readEntries, type StoredResult } from "../journal/index.js";

export interface StepInput {
  readonly row: CheckpointRow;
  readonly shadow: Shadow;
  readonly state: unknown;
  readonly entries: readonly JournalOperation[];
  readonly results: readonly StoredResult[];
}

/** Reads the input of the current step. Throws `LEASE_LOST` if its boundary checkpoint is missing. */
export async function readStepInput(
  reader: SessionReader,
  branch: string,
  claim: Claim,
  { tape, first, count, boundary }: JournalRecord,
): Promise<StepInput> {
  const { number } = claim;
  const row = claim.boundary.seq === boundary ? claim.boundary : await readBoundary(reader, branch, number, boundary);
  const shadow = await loadShadow(reader, number, row);
  const state = shadowToValue(shadow, reader.context.registry);
  const { entries, results } = await readEntries(reader, number, { tape, start: first, count });
  return { row, shadow, state, entries, results };
}

async function readBoundary(
  reader: SessionReader,
  branch: string,
  number: number,
  seq: number,
): Promise<CheckpointRow> {
  const head = (await reader.heads(branch)).branch?.record.head;
  const row = head?.seq === seq ? head : await reader.row(number, seq);
  if (!row || "unreadable" in row) throw leaseLost(reader.sessionId, branch);
  return row;
}
