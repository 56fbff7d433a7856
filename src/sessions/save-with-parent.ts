/** Saves with an explicit `parent`: on the head that the caller names, after an older checkpoint, or without a parent. */
import { isSavepointError, SavepointError } from "../errors.js";
import type { Shadow } from "../state/index.js";
import type { BranchCursor } from "./branch-cursor.js";
import {
  checkBranchName,
  type CheckpointInfo,
  type CheckpointRow,
  MAIN,
  newBranchRecord,
  newSessionRecord,
  type SessionRecord,
  unnamedBranch,
} from "../records/index.js";
import { buildCommit } from "./commit.js";
import { checkpointRemoved, isIdTaken } from "./conflicts.js";
import type { Cursors } from "./cursors.js";
import { BranchHeldError, sessionDeleted } from "./errors.js";
import { loadShadow } from "./load-state.js";
import type { Heads, LoadedRecord, SessionReader } from "./reader.js";
import type { SaveFields } from "./save-options.js";

/** A checkpoint to save. */
export interface SaveRequest {
  /** A private copy of the state. */
  readonly copy: Shadow;
  readonly options: SaveFields;
  /** The agent that becomes the session's agent if it has none. */
  readonly agent: string | undefined;
}

/** Saves after `row` if it is the head of the branch; returns `undefined` if it is not, or stops being the head. */
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
  let hasMoved = false;
  const admit = (heads: Heads): void => {
    hasMoved = !isHead(heads);
    if (hasMoved) throw new SavepointError("CONFLICT", `Another writer has moved the branch from ${row.id}.`);
  };
  try {
    return await cursor.save({ copy }, options, { agent, admit });
  } catch (error) {
    if (hasMoved) return undefined;
    throw error;
  }
}

/**
 * Saves the first checkpoint of a new branch, without a parent.
 *
 * @param own the cursor of the branch, which must be idle; without it the branch gets a generated name
 */
export async function saveAsRoot(
  reader: SessionReader,
  cursors: Cursors,
  own: BranchCursor | undefined,
  { copy, options, agent }: SaveRequest,
): Promise<CheckpointInfo> {
  if (own && own.branchName !== MAIN) checkBranchName(own.branchName);
  for (;;) {
    const session = (await reader.session()) ?? (await createSession(reader, cursors, agent));
    const tape = session.record.nextTape;
    const record = newBranchRecord(own?.branchName ?? unnamedBranch(tape), tape, reader.context.now());
    const cursor = own ?? cursors.get(reader, record.name);
    const save = (): Promise<CheckpointInfo> => {
      cursor.prepareNewBranch(session, record, undefined);
      return cursor.save({ copy }, options, { agent, admit: () => {} });
    };
    try {
      return await (own ? save() : cursor.exclusive(save));
    } catch (error) {
      if (!isSavepointError(error, "CONFLICT") || isIdTaken(error)) throw error;
      // Retry only if another save or branch was faster. A branch of the same name, and any other conflict, would repeat.
      const current = await reader.session();
      const nameTaken = own !== undefined && (await reader.heads(record.name)).branch !== undefined;
      if (nameTaken || current?.value === session.value) throw error;
    }
  }
}

/**
 * Saves on a branch whose head is another checkpoint: the branch continues from `row`, or from no checkpoint.
 *
 * @param row the parent of the new checkpoint
 */
export async function saveWithReset(
  reader: SessionReader,
  cursor: BranchCursor,
  number: number,
  row: CheckpointRow | undefined,
  { copy, options, agent }: SaveRequest,
): Promise<CheckpointInfo> {
  const admit = ({ branch }: Heads): void => {
    if (branch?.record.held) throw new BranchHeldError(reader.sessionId, cursor.branchName);
  };
  for (;;) {
    const shadow = row && (await loadShadow(reader, number, row));
    const { session, branch } = await cursor.refresh();
    if (session?.record.number !== number) throw sessionDeleted(reader.sessionId);
    try {
      cursor.prepareReset(row, shadow);
      return await cursor.save({ copy }, options, { agent, admit });
    } catch (error) {
      if (!isSavepointError(error, "CONFLICT") || isIdTaken(error)) throw error;
      if (row && !(await reader.row(number, row.seq))) throw checkpointRemoved(row, error);
      if ((await reader.heads(cursor.branchName)).branch?.value === branch?.value) throw error;
    }
  }
}

/** Every session starts with an empty `main`, whatever branch its first checkpoint is on. */
async function createSession(
  reader: SessionReader,
  cursors: Cursors,
  agent: string | undefined,
): Promise<LoadedRecord<SessionRecord>> {
  const now = reader.context.now();
  const number = await cursors.numbers.next();
  const built = buildCommit({
    sessionId: reader.sessionId,
    sessionBefore: undefined,
    session: { ...newSessionRecord(number, now), agent },
    branchBefore: undefined,
    branch: newBranchRecord(MAIN, 0, now),
    rows: [],
  });
  try {
    await reader.context.store.commit(built.commit);
    return built.session;
  } catch (error) {
    const existing = isSavepointError(error, "CONFLICT") ? await reader.session() : undefined;
    if (!existing) throw error;
    return existing;
  }
}
