/** Making branches, and going back on one. */
import { isSavepointError, SavepointError } from "../errors.js";
import { formatRefs, type Frame, parseRefs, type Shadow } from "../state/index.js";
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
  newQueueEntry,
  type CheckpointRow,
  type SessionRecord,
  unnamedBranch,
} from "../records/index.js";
import { isIdTaken } from "./conflicts.js";
import type { Cursors } from "./cursors.js";
import { loadShadow } from "./load-state.js";
import type { SaveFields } from "./save-options.js";
import { buildCommit, type CommitParts } from "./commit.js";
import { sessionDeleted } from "./errors.js";
import type { LoadedRecord, SessionReader } from "./reader.js";

/** A branch: a named head in a session's tree. */
export interface BranchInfo {
  /** `main`, the name it was given, or one that begins with `~` where it has none. */
  readonly name: string;
  readonly createdAt: number;
  readonly head: CheckpointInfo | undefined;
}

/**
 * Opens a branch whose head is `row` itself. Returns its name.
 *
 * @param more what else belongs to the branch, on a tape of its own
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

/** Opens a branch behind `row` with a state of its own as its first checkpoint. */
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

/** Tries to open a branch until no other fork is in the way. */
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
      name: name ?? unnamedBranch(tape),
      tape,
      nextItem: 0,
      epoch: 0,
      held: false,
      hidden: false,
      createdAt: reader.context.now(),
      forkedFrom: row.seq,
      head: row,
      headParentId: undefined,
    };
    if ((await reader.heads(record.name)).branch) {
      // A generated name is taken only by another fork that was first.
      if (name === undefined) continue;
      throw branchExists(reader, record.name);
    }
    try {
      return await attempt(session, record);
    } catch (error) {
      if (!isSavepointError(error, "CONFLICT")) throw error;
      if (!(await reader.row(number, row.seq))) throw removedMeanwhile(row, error);
      // Another save or fork was first. Anything else would come again.
      if ((await readSession(reader, number)).value === session.value) throw error;
    }
  }
}

/** Gives the head of a branch a row of its own, if it has none: something is about to be built on it, or said of it. */
export async function materializeHead(reader: SessionReader, number: number, row: CheckpointRow): Promise<void> {
  for (;;) {
    const { session, branch } = await reader.heads(row.branch);
    if (session?.record.number !== number || !branch?.record.hidden || branch.record.head?.id !== row.id) return;
    const built = buildCommit({
      sessionId: reader.sessionId,
      sessionBefore: session,
      session: session.record,
      branchBefore: branch,
      branch: { ...branch.record, hidden: false },
      rows: [row],
    });
    try {
      await reader.context.store.commit(built.commit);
      return;
    } catch (error) {
      // Somebody saved meanwhile: then the head is another one.
      if (!isSavepointError(error, "CONFLICT")) throw error;
    }
  }
}

/** Makes the state of `target` the head again, after keeping the head it replaces. */
export async function rewindBranch(
  reader: SessionReader,
  cursor: BranchCursor,
  number: number,
  target: CheckpointRow,
  author: Author,
): Promise<CheckpointInfo> {
  const { context, sessionId } = reader;
  // What cannot be read must not become the newest: that would hide those that can.
  await loadShadow(reader, number, target);
  for (;;) {
    const heads = await cursor.refresh();
    author.admit(heads);
    const { session, branch } = heads;
    const head = branch?.record.head;
    if (session?.record.number !== number) throw sessionDeleted(reader.sessionId);
    if (!branch || !head) throw new SavepointError("CHECKPOINT_NOT_FOUND", "There is nothing to rewind.");
    const { nextSeq } = session.record;
    const now = context.now();
    const at = (row: CheckpointRow, seq: number, kind: CheckpointKind): CheckpointRow =>
      copyRow(row, { seq, kind, id: context.newId({ number, seq }), createdAt: now, branch: branch.record });
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
      if (!(await reader.row(number, target.seq))) throw removedMeanwhile(target, error);
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
  const [known, inbox] = await store.get(keys);
  // A damaged entry is replaced by the next process that resumes the branch.
  if (known && !("value" in known)) return {};
  const before = known && decodeQueueEntry(known.value);
  const { first, next } = inbox && "value" in inbox ? decodeInbox(inbox.value) : { first: 0, next: 0 };
  const of = before?.agent ?? agent;
  const after =
    first < next && of !== undefined
      ? { ...newQueueEntry(of, await store.now(), before?.priority), external: before?.external ?? false }
      : undefined;
  if (!before && !after) return {};
  const { puts, deletes } = changeQueueEntry(sessionId, branch, before, after);
  const checks = [{ key: keys[0] as string, value: known?.value }];
  // An input that is sent meanwhile relies on the queue entry that was there. A damaged inbox cannot be checked.
  if (!inbox || "value" in inbox) checks.push({ key: keys[1] as string, value: inbox?.value });
  return { checks, puts, deletes, ...(after && { wakes: [after.agent] }) };
}

/** A new row with the state of another: its items are shared, its refs written as the new row's tape sees them. */
function copyRow(
  row: CheckpointRow,
  as: { seq: number; kind: CheckpointKind; id: string; createdAt: number; branch: BranchRecord },
): CheckpointRow {
  const { seq, kind, id, createdAt, branch } = as;
  return {
    ...row,
    seq,
    kind,
    id,
    createdAt,
    tape: branch.tape,
    branch: branch.name,
    parent: row.seq,
    grandparent: row.parent,
    label: undefined,
    description: undefined,
    trigger: "rewind",
    pinned: false,
    ttl: undefined,
    storedBytes: Buffer.byteLength(row.skeleton.json) + row.skeleton.refs.length,
    skeleton: rebaseFrame(row.skeleton, row.tape, branch.tape),
  };
}

/** A frame on another tape: its refs written as that one sees them. */
export function rebaseFrame(frame: Frame, from: number, to: number): Frame {
  return from === to ? frame : { json: frame.json, refs: formatRefs(parseRefs(frame.refs, from), to) };
}

async function readSession(reader: SessionReader, number: number): Promise<LoadedRecord<SessionRecord>> {
  const session = await reader.session();
  if (session?.record.number === number) return session;
  throw sessionDeleted(reader.sessionId);
}

function removedMeanwhile(row: CheckpointRow, cause: unknown): SavepointError {
  return new SavepointError("CHECKPOINT_NOT_FOUND", `Checkpoint ${row.id} was removed meanwhile.`, { cause });
}

function branchExists(reader: SessionReader, name: string): SavepointError {
  return new SavepointError(
    "BRANCH_EXISTS",
    `Session ${JSON.stringify(reader.sessionId)} already has a branch ${JSON.stringify(name)}. Choose another name.`,
  );
}
