/**
 * Claiming a branch: the right to write it. One commit checks all records that were read, raises the epoch and writes the
 * owner, so if two processes claim a branch at the same time, one of them is rejected and reads the branch again.
 */
import {
  type BranchCursor,
  buildCommit,
  type CommitParts,
  type Heads,
  type SessionReader,
} from "../../sessions/index.js";
import {
  changeQueueEntry,
  type CheckpointRow,
  encodeJournal,
  encodeRun,
  journalKey,
  type JournalRecord,
  newQueueEntry,
  type QueueEntry,
  runKey,
  type RunRecord,
  tapeName,
  turnKey,
} from "../../records/index.js";
import { decideWorkStatus, hasEndedHere } from "../status/index.js";
import type { Agent } from "../agent/index.js";
import { hashText } from "../journal/index.js";
import { currentMoment, type Leases, type Moment } from "../leases/index.js";
import { checkClaimable } from "./claimable.js";
import { findResumePoint, readBoundary } from "./resume-point.js";
import type { RunSnapshot } from "./run-snapshot.js";
import { loadStepStart, type StepStart } from "./step-start.js";

/** A branch that a process is about to claim, and what it needs for that. */
export interface BranchWork {
  readonly agent: Agent;
  readonly reader: SessionReader;
  readonly branch: string;
  readonly leases: Leases;
  readonly cursor: BranchCursor;
}

/** The turn that the caller wants to work on. */
export interface TurnRequest {
  /** The input in its encoded form; `undefined` to resume without one. */
  readonly input: string | undefined;
  /** The key that makes the input unique in its branch. */
  readonly key: string | undefined;
  /** Restart the current step, and keep only its tool calls. */
  readonly restartStep: boolean;
}

/** A claimed branch, as it is when the run starts or resumes. */
export interface Claim {
  readonly number: number;
  /** A moment before the commit of the claim, from which on this process may hold the branch. */
  readonly preparedAt: Moment;
  readonly createdAt: number;
  /** The branch's own tape. */
  readonly tape: number;
  readonly run: RunRecord;
  readonly journal: JournalRecord;
  readonly queueEntry: QueueEntry;
  /** The checkpoint at which the current step started. */
  readonly boundary: CheckpointRow;
}

export interface ClaimedBranch {
  readonly claim: Claim;
  /** What the current step starts with; `undefined` if that was not read before the claim. */
  readonly start?: StepStart | undefined;
}

/** The largest number of lost owners in a queue entry. */
const MAX_LOST_OWNERS = 100;

/**
 * The owners that were lost one after another in the current step, including the one that still holds the branch. An owner
 * counts as lost if it has not released the branch, unless it belongs to this process.
 *
 * @param self the owner id of the caller
 */
export function findLostOwners(
  sessionId: string,
  { queueEntry, run, heads, journal }: RunSnapshot,
  self: string,
): Pick<QueueEntry, "lostOwners" | "lostAtSeq"> {
  const { held, name = "" } = heads.branch?.record ?? {};
  const isLost = held && run && run.owner !== self && !hasEndedHere(run.owner, sessionId, name);
  if (!isLost) return { lostOwners: [], lostAtSeq: undefined };
  const lostAtSeq = journal?.boundary;
  const earlier = lostAtSeq !== undefined && queueEntry?.lostAtSeq === lostAtSeq ? queueEntry.lostOwners : [];
  const lostOwners = [...earlier.filter((owner) => owner !== run.owner), run.owner].slice(-MAX_LOST_OWNERS);
  return { lostOwners, lostAtSeq };
}

/** The queue entry of a branch that the caller claims. */
export function buildClaimEntry({ agent, reader, leases }: BranchWork, snapshot: RunSnapshot): QueueEntry {
  const { name, definition } = agent;
  return {
    ...(snapshot.queueEntry ?? newQueueEntry(name, 0)),
    agent: name,
    readyAt: 0,
    external: definition.open,
    owner: leases.owner,
    ...findLostOwners(reader.sessionId, snapshot, leases.owner),
  };
}

/** The record of a run that has no result, no questions and no error yet. */
export function newRunRecord(
  fields: Omit<RunRecord, "reason" | "head" | "questions" | "wakeAt" | "code" | "error">,
): RunRecord {
  const unset = { reason: undefined, head: undefined, wakeAt: undefined, code: undefined, error: undefined };
  return { ...fields, ...unset, questions: [] };
}

/** The record of a run that the caller claims. */
export function buildRunningRecord(
  { agent, leases }: BranchWork,
  { run, now }: RunSnapshot,
  fields: Pick<RunRecord, "number" | "turn" | "input" | "key" | "stepsBefore">,
): RunRecord {
  const { owner } = leases;
  const startedAt = run?.startedAt ?? now;
  const { name, definition } = agent;
  const kind = definition.open && { external: true as const };
  return newRunRecord({ ...fields, ...kind, agent: name, owner, status: "running", startedAt });
}

/**
 * The number of completed steps from which on the steps of a resumed turn are counted. A run that had ended, and was not ended by
 * an error of its code, starts a new count.
 */
function countStepsFrom({ heads, run }: RunSnapshot, boundary: CheckpointRow): number {
  const { status, isCurrent, isCodeError } = decideWorkStatus(heads, run);
  const hasEnded = (status === "failed" || status === "halted") && !isCodeError;
  return (isCurrent && !hasEnded ? run?.stepsBefore : undefined) ?? boundary.step;
}

/**
 * The parts of the commit of a claim, besides the checks: the records of the claim, and the turn of a key.
 *
 * @param key of the input with which a turn starts; `undefined` if there is none
 */
export function buildClaimParts(
  { reader, branch }: BranchWork,
  snapshot: RunSnapshot,
  { run, journal, queueEntry }: Pick<Claim, "run" | "journal" | "queueEntry">,
  lease: Awaited<ReturnType<Leases["prepareClaim"]>>,
  key: string | undefined,
): Required<Pick<CommitParts, "puts" | "deletes" | "wakes">> {
  const { sessionId, context } = reader;
  const entryChange = changeQueueEntry(sessionId, branch, snapshot.queueEntry, queueEntry);
  const turn = { key: turnKey(sessionId, branch, key ?? ""), value: JSON.stringify([run.number, run.turn]) };
  const puts = [
    { key: runKey(sessionId, branch), value: encodeRun(run, context.registry) },
    { key: journalKey(sessionId, branch), value: encodeJournal(journal) },
    ...entryChange.puts,
    ...lease.puts,
    ...(key === undefined ? [] : [turn]),
  ];
  return { puts, deletes: entryChange.deletes, wakes: lease.wakes };
}

/** Claims a branch that has a head, to resume its work. Throws `CONFLICT` if the branch has changed since the snapshot. */
export async function claimBranch(
  work: BranchWork,
  snapshot: RunSnapshot,
  request: TurnRequest,
): Promise<ClaimedBranch> {
  const { reader, branch, leases, cursor } = work;
  const { sessionId, context } = reader;
  const session = snapshot.heads.session as NonNullable<Heads["session"]>;
  const branchBefore = snapshot.heads.branch as NonNullable<Heads["branch"]>;
  const head = branchBefore.record.head as CheckpointRow;
  const { number, nextTape, createdAt } = session.record;
  const parts = checkClaimable(reader, branch, snapshot, leases.owner);
  const epoch = branchBefore.record.epoch + 1;
  const point = await findResumePoint(reader, number, snapshot.journal, head, request.restartStep, nextTape);
  const boundary = await readBoundary(reader, number, point.journal.boundary, head, snapshot.boundary);
  const journal: JournalRecord = { ...point.journal, epoch, cancelReason: undefined };
  const run = buildRunningRecord(work, snapshot, {
    number,
    turn: snapshot.run?.turn ?? head.run?.turn ?? 1,
    input: snapshot.run?.input ?? (request.input === undefined ? "" : hashText(request.input)),
    key: snapshot.run?.key ?? request.key,
    stepsBefore: countStepsFrom(snapshot, boundary),
  });
  const queueEntry = buildClaimEntry(work, snapshot);
  const { tape, first, frames, blobs } = point.items;
  // Read before the branch is claimed: items do not change, and over a network one connection suffices until the step begins. If they
  // cannot be read, the run reports that.
  const isStored = frames.length === 0;
  const start = isStored
    ? await loadStepStart(reader, cursor, number, boundary, journal).catch(() => undefined)
    : undefined;
  const lease = await leases.prepareClaim();
  const preparedAt = currentMoment(context);
  const built = buildCommit({
    sessionId,
    sessionBefore: session,
    session: { ...session.record, nextTape: nextTape + (point.isNewTape ? 1 : 0) },
    branchBefore,
    branch: { ...branchBefore.record, epoch, held: true },
    rows: [],
    extension: {
      ...parts,
      ...buildClaimParts(work, snapshot, { run, journal, queueEntry }, lease, snapshot.run ? undefined : request.key),
      items: frames.length > 0 ? [{ tape: tapeName(number, tape), first, items: frames }] : [],
      blobs,
    },
  });
  await cursor.exclusive(async () => {
    await context.store.commit(built.commit);
    cursor.adoptCommit(built);
    if (start) cursor.keepShadow(boundary, start.shadow);
  });
  const { tape: branchTape } = built.branch.record;
  return { claim: { number, preparedAt, createdAt, tape: branchTape, run, journal, queueEntry, boundary }, start };
}
