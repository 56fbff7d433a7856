/** Lines of checkpoints that follow nothing, and branches that go on from elsewhere. */
import { isSavepointError, SavepointError } from "../errors.js";
import type { Shadow } from "../state/index.js";
import type { BranchCursor } from "./branch-cursor.js";
import {
  type BranchRecord,
  checkBranchName,
  type CheckpointInfo,
  MAIN,
  newSessionRecord,
  type CheckpointRow,
  unnamedBranch,
} from "../records/index.js";
import { isIdTaken } from "./conflicts.js";
import type { Cursors } from "./cursors.js";
import { loadShadow } from "./load-state.js";
import type { SaveFields } from "./save-options.js";
import { buildCommit } from "./commit.js";
import { BranchHeldError, sessionDeleted } from "./errors.js";
import type { SessionReader } from "./reader.js";

/** What is saved: a private copy of the state, what is said about it, and for whom. */
export interface SaveRequest {
  readonly copy: Shadow;
  readonly options: SaveFields;
  readonly agent: string | undefined;
}

/**
 * Opens a branch whose first checkpoint follows none.
 *
 * @param own the cursor of the branch, which does nothing else meanwhile; without it the branch gets a name that is made
 */
export async function saveAsRoot(
  reader: SessionReader,
  cursors: Cursors,
  own: BranchCursor | undefined,
  { copy, options, agent }: SaveRequest,
): Promise<CheckpointInfo> {
  if (own && own.branchName !== MAIN) checkBranchName(own.branchName);
  for (;;) {
    const session = (await reader.session()) ?? (await beginSession(reader, cursors, agent));
    const tape = session.record.nextTape;
    const record = emptyBranch(own?.branchName ?? unnamedBranch(tape), tape, reader.context.now());
    const cursor = own ?? cursors.get(reader, record.name);
    const save = (): Promise<CheckpointInfo> => {
      cursor.prepareNewBranch(session, record, undefined);
      return cursor.save({ copy }, options, { agent, admit: () => {} });
    };
    try {
      return await (own ? save() : cursor.exclusive(save));
    } catch (error) {
      if (!isSavepointError(error, "CONFLICT") || isIdTaken(error)) throw error;
      const now = await reader.session();
      // Another save or branch was first. Anything else would come again; so would a branch of that name.
      const taken = own !== undefined && (await reader.heads(record.name)).branch !== undefined;
      if (taken || now?.value === session.value) throw error;
    }
  }
}

/**
 * Saves on a branch that is somewhere else: it goes on from `row`, or from nothing.
 *
 * @param row what the new checkpoint follows
 */
export async function saveWithReset(
  reader: SessionReader,
  cursor: BranchCursor,
  number: number,
  row: CheckpointRow | undefined,
  { copy, options, agent }: SaveRequest,
): Promise<CheckpointInfo> {
  for (;;) {
    const shadow = row && (await loadShadow(reader, number, row));
    const { session, branch } = await cursor.refresh();
    if (session?.record.number !== number) throw sessionDeleted(reader.sessionId);
    const admit = (heads: { readonly branch: { readonly record: BranchRecord } | undefined }): void => {
      if (heads.branch?.record.held) throw new BranchHeldError(reader.sessionId, cursor.branchName);
    };
    try {
      cursor.prepareReset(row, shadow);
      return await cursor.save({ copy }, options, { agent, admit });
    } catch (error) {
      if (!isSavepointError(error, "CONFLICT") || isIdTaken(error)) throw error;
      if (row && !(await reader.row(number, row.seq))) throw removedMeanwhile(row, error);
      if ((await reader.heads(cursor.branchName)).branch?.value === branch?.value) throw error;
    }
  }
}

/** A session begins with an empty `main`, whatever branch its first checkpoint is on. */
async function beginSession(
  reader: SessionReader,
  cursors: Cursors,
  agent: string | undefined,
): Promise<NonNullable<Awaited<ReturnType<SessionReader["session"]>>>> {
  const now = reader.context.now();
  const number = await cursors.nextSessionNumber();
  const built = buildCommit({
    sessionId: reader.sessionId,
    sessionBefore: undefined,
    session: { ...newSessionRecord(number, now), agent },
    branchBefore: undefined,
    branch: emptyBranch(MAIN, 0, now),
    rows: [],
  });
  try {
    await reader.context.store.commit(built.commit);
    return built.session;
  } catch (error) {
    const there = isSavepointError(error, "CONFLICT") ? await reader.session() : undefined;
    if (!there) throw error;
    return there;
  }
}

function emptyBranch(name: string, tape: number, createdAt: number): BranchRecord {
  return {
    name,
    tape,
    nextItem: 0,
    epoch: 0,
    held: false,
    hidden: false,
    createdAt,
    forkedFrom: undefined,
    head: undefined,
    headParentId: undefined,
  };
}

function removedMeanwhile(row: CheckpointRow, cause: unknown): SavepointError {
  return new SavepointError("CHECKPOINT_NOT_FOUND", `Checkpoint ${row.id} was removed meanwhile.`, { cause });
}
