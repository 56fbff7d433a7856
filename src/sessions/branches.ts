/** Forking and rewinding branches. */
import { isSavepointError, SavepointError } from "../errors.js";
import type { Shadow } from "../state/index.js";
import { retryOnConflict } from "../util/index.js";
import type { Author, BranchCursor } from "./branch-cursor.js";
import {
  type BranchRecord,
  changeQueueEntry,
  type CheckpointInfo,
  type CheckpointKind,
  decodeQueueEntry,
  decodeInbox,
  queueEntryKey,
  inboxKey,
  newBranchRecord,
  newQueueEntry,
  type CheckpointRow,
  type SessionRecord,
  unnamedBranch,
} from "../records/index.js";
import { checkpointRemoved, isIdTaken } from "./conflicts.js";
import type { Cursors } from "./cursors.js";
import { loadShadow } from "./load-state.js";
import { copyRow } from "./new-row.js";
import type { SaveFields } from "./save-options.js";
import { buildCommit, type CommitParts } from "./commit.js";
import { sessionDeleted } from "./errors.js";
import type { LoadedRecord, SessionReader } from "./reader.js";

/** A branch: a named head in the checkpoint tree of a session. */
export interface BranchInfo {
  /** `main`, the name that the caller chose, or a generated name that starts with `~`. */
  readonly name: string;
  readonly createdAt: number;
  /** The `seq` of the checkpoint that it was forked from. */
  readonly forkedFrom: number | undefined;
  readonly head: CheckpointInfo | undefined;
}

/**
 * Creates a branch whose head is `row` itself. Returns its name.
 *
 * @param more builds further records of the branch; they get a tape of their own
 */
export async function forkAt(
  reader: SessionReader,
  number: number,
  row: CheckpointRow,
  name: string | undefined,
  more?: (branch: string, tape: number) => CommitParts,
): Promise<string> {
  const { parentId } = await reader.loadInfo(number, row, undefined);
  return fork(reader, number, row, name, async (session, record) => {
    const built = buildCommit({
      sessionId: reader.sessionId,
      sessionBefore: session,
      session: { ...session.record, nextTape: record.tape + (more ? 2 : 1) },
      branchBefore: undefined,
      branch: { ...record, headParentId: parentId },
      rows: [],
      requiredRows: [row.seq],
      ...(more && { extension: more(record.name, record.tape + 1) }),
    });
    await reader.context.store.commit(built.commit);
    return record.name;
  });
}

/** Creates a branch after `row` whose first checkpoint has another state. */
export async function forkWithState(
  reader: SessionReader,
  cursors: Cursors,
  number: number,
  row: CheckpointRow,
  name: string | undefined,
  copy: Shadow,
  options: SaveFields,
  agent: string | undefined,
): Promise<CheckpointInfo> {
  return fork(reader, number, row, name, async (session, record) => {
    const shadow = await loadShadow(reader, number, row);
    const cursor = cursors.get(reader, record.name);
    return cursor.exclusive(async () => {
      cursor.prepareNewBranch(session, record, shadow);
      return cursor.save({ copy }, options, { agent, admit: () => {} });
    });
  });
}

/** Creates a branch, and tries again while concurrent saves and forks of the session change its record. */
async function fork<T>(
  reader: SessionReader,
  number: number,
  row: CheckpointRow,
  name: string | undefined,
  attempt: (session: LoadedRecord<SessionRecord>, record: BranchRecord) => Promise<T>,
): Promise<T> {
  for (;;) {
    const session = await readSession(reader, number);
    const tape = session.record.nextTape;
    const record: BranchRecord = {
      ...newBranchRecord(name ?? unnamedBranch(tape), tape, reader.context.now()),
      forkedFrom: row.seq,
      head: row,
    };
    if ((await reader.heads(record.name)).branch) {
      // A generated name exists only if another fork was faster.
      if (name === undefined) continue;
      throw branchExists(reader, record.name);
    }
    try {
      return await attempt(session, record);
    } catch (error) {
      if (!isSavepointError(error, "CONFLICT")) throw error;
      if (!(await reader.row(number, row.seq))) throw checkpointRemoved(row, error);
      // Retry only if another save or fork was faster: any other conflict would repeat.
      if ((await readSession(reader, number)).value === session.value) throw error;
    }
  }
}

/** Writes the row of a hidden head, so that checkpoints and notes can refer to it. */
export async function materializeHead(reader: SessionReader, number: number, row: CheckpointRow): Promise<void> {
  await retryOnConflict(async () => {
    const { session, branch } = await reader.heads(row.branch);
    if (session?.record.number !== number || !branch?.record.hidden || branch.record.head?.id !== row.id) return;
    const { commit } = buildCommit({
      sessionId: reader.sessionId,
      sessionBefore: session,
      session: session.record,
      branchBefore: branch,
      branch: { ...branch.record, hidden: false },
      rows: [row],
    });
    await reader.context.store.commit(commit);
  });
}

/** Makes the state of `target` the head again, after saving a copy of the current head. One commit. */
export async function rewindBranch(
  reader: SessionReader,
  cursor: BranchCursor,
  number: number,
  target: CheckpointRow,
  author: Author,
): Promise<CheckpointInfo> {
  const { context, sessionId } = reader;
  // A damaged checkpoint must not become the head.
  await loadShadow(reader, number, target);
  for (;;) {
    const heads = await cursor.refresh();
    author.admit(heads);
    const { session, branch } = heads;
    const head = branch?.record.head;
    if (session?.record.number !== number) throw sessionDeleted(reader.sessionId);
    if (!branch || !head)
      throw new SavepointError("CHECKPOINT_NOT_FOUND", "The branch has no checkpoint to rewind. Save a state first.");
    const { nextSeq } = session.record;
    const createdAt = context.now();
    const at = (row: CheckpointRow, seq: number, kind: CheckpointKind): CheckpointRow =>
      copyRow(row, branch.record, { seq, id: context.newId({ number, seq }), kind, createdAt, trigger: "rewind" });
    const kept = at(head, nextSeq, "preOperation");
    const recovered = at(target, nextSeq + 1, "recovery");
    const queue = await leaveQueue(reader, branch.record.name, session.record.agent);
    const built = buildCommit({
      sessionId,
      sessionBefore: session,
      session: { ...session.record, nextSeq: nextSeq + 2 },
      branchBefore: branch,
      branch: { ...branch.record, held: false, hidden: false, head: recovered, headParentId: target.id },
      rows: branch.record.hidden ? [head, kept, recovered] : [kept, recovered],
      requiredRows: [target.seq],
      extension: queue,
    });
    try {
      await context.store.commit(built.commit);
      cursor.adoptCommit(built);
      return reader.toInfo(recovered, session.record.agent, target.id);
    } catch (error) {
      if (!isSavepointError(error, "CONFLICT")) throw error;
      if (isIdTaken(error)) throw error;
      if (!(await reader.row(number, target.seq))) throw checkpointRemoved(target, error);
    }
  }
}

/**
 * Removes a branch from the queue: the checkpoint that was to be resumed, woken or answered is no longer its head. If inputs
 * are queued for it, the branch stays in the queue.
 */
async function leaveQueue(reader: SessionReader, branch: string, agent: string | undefined): Promise<CommitParts> {
  const { sessionId } = reader;
  const { store } = reader.context;
  const keys = [queueEntryKey(sessionId, branch), inboxKey(sessionId, branch)];
  const [entry, inbox] = await store.get(keys);
  // A damaged entry is replaced by the next process that resumes the branch.
  if (entry && !("value" in entry)) return {};
  const before = entry && decodeQueueEntry(entry.value);
  const { first, next } = inbox && "value" in inbox ? decodeInbox(inbox.value) : { first: 0, next: 0 };
  const of = before?.agent ?? agent;
  const after =
    first < next && of !== undefined
      ? { ...newQueueEntry(of, await store.now(), before?.priority), external: before?.external ?? false }
      : undefined;
  if (!before && !after) return {};
  const { puts, deletes } = changeQueueEntry(sessionId, branch, before, after);
  const checks = [{ key: keys[0] as string, value: entry?.value }];
  // An input that is sent concurrently relies on the current queue entry. A damaged inbox cannot be checked.
  if (!inbox || "value" in inbox) checks.push({ key: keys[1] as string, value: inbox?.value });
  return { checks, puts, deletes, ...(after && { wakes: [after.agent] }) };
}

async function readSession(reader: SessionReader, number: number): Promise<LoadedRecord<SessionRecord>> {
  const session = await reader.session();
  if (session?.record.number === number) return session;
  throw sessionDeleted(reader.sessionId);
}

function branchExists(reader: SessionReader, name: string): SavepointError {
  return new SavepointError(
    "BRANCH_EXISTS",
    `Session ${JSON.stringify(reader.sessionId)} already has a branch ${JSON.stringify(name)}. Choose another branch name.`,
  );
}
