/** The attempts to claim a branch for a turn, and the turns that ended before. */
import { SavepointError } from "../../errors.js";
import { type CheckpointRow, MAIN, turnKey } from "../../records/index.js";
import { agentMismatch, branchNotFound, describeBranch, type SessionReader } from "../../sessions/index.js";
import { unlessConflict } from "../../util/index.js";
import { type BranchWork, readRunSnapshot, type RunSnapshot } from "../claims/index.js";

/** Each attempt fails only if another process has changed the branch. More failures than this have another cause. */
const MAX_ATTEMPTS = 100;

/**
 * Calls `attempt` with a new snapshot of the branch until it returns a result. `undefined` and `CONFLICT` mean that the branch has
 * changed.
 * Throws `AGENT_MISMATCH` if the session belongs to another agent, and `BRANCH_NOT_FOUND` for a branch other than `main`
 * without a checkpoint.
 */
export async function attemptClaim<Result>(
  { agent, reader, branch }: BranchWork,
  attempt: (snapshot: RunSnapshot) => Promise<Result | undefined>,
): Promise<Result> {
  const { sessionId } = reader;
  for (let attempts = 0; attempts < MAX_ATTEMPTS; attempts++) {
    const snapshot = await readRunSnapshot(reader, branch, attempts === 0);
    const owner = snapshot.heads.session?.record.agent;
    if (owner !== undefined && owner !== agent.name) throw agentMismatch(sessionId, owner, agent.name);
    if (!snapshot.heads.branch?.record.head && branch !== MAIN) throw branchNotFound(sessionId, branch);
    const result = await unlessConflict(attempt(snapshot));
    if (result) return result;
  }
  throw new SavepointError(
    "BUSY",
    `${describeBranch(sessionId, branch)} could not be claimed: other processes changed it in each of ${MAX_ATTEMPTS} attempts. Try again later.`,
  );
}

/** Finds the number of the turn that started with a key. */
export async function findTurn(
  reader: SessionReader,
  branch: string,
  key: string | undefined,
  { heads }: RunSnapshot,
): Promise<number | undefined> {
  if (key === undefined) return undefined;
  const [record] = await reader.context.store.get([turnKey(reader.sessionId, branch, key)]);
  if (!record) return undefined;
  if (!("value" in record)) {
    const where = describeBranch(reader.sessionId, branch);
    throw new SavepointError(
      "DAMAGED",
      `${where}: the record of the turn with the key ${JSON.stringify(key)} is damaged: ${record.unreadable}.`,
    );
  }
  const [number, turn] = JSON.parse(record.value) as [number, number];
  return number === heads.session?.record.number ? turn : undefined;
}

/** Finds the checkpoint that ended a turn. Throws `CHECKPOINT_NOT_FOUND` if it was removed. */
export async function findEndOfTurn(
  reader: SessionReader,
  branch: string,
  number: number,
  head: CheckpointRow,
  turn: number,
  key: string | undefined,
): Promise<CheckpointRow> {
  for await (const row of reader.lineage(number, head)) {
    if ("unreadable" in row) continue;
    const hasEnded = row.status === "completed" || row.status === "failed" || row.status === "halted";
    if (row.run?.turn === turn && hasEnded) return row;
    if (row.run && row.run.turn < turn) break;
  }
  throw new SavepointError(
    "CHECKPOINT_NOT_FOUND",
    `${describeBranch(reader.sessionId, branch)} has completed an input with the key ${JSON.stringify(key)} before, and the checkpoint with its result was removed. Use another key for another input.`,
  );
}
