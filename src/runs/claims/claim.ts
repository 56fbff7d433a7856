/**
 * Taking the right to write a branch. One commit checks everything that was looked at, raises the epoch and writes down
 * who has it: of two processes that try, one is refused and looks again.
 */
import { isSavepointError, SavepointError } from "../../errors.js";
import {
  alreadyRunning,
  type BranchCursor,
  buildCommit,
  type CommitParts,
  type Heads,
  type LoadedRecord,
  rebaseFrame,
  type SessionReader,
} from "../../sessions/index.js";
import {
  branchKey,
  changeQueueEntry,
  decodeQueueEntry,
  decodeInbox,
  decodeJournal,
  type QueueEntry,
  queueEntryKey,
  emptyJournal,
  encodeJournal,
  encodeRun,
  inboxKey,
  type InboxRecord,
  journalKey,
  type JournalRecord,
  newQueueEntry,
  ownerKey,
  type OwnerRecord,
  type CheckpointRow,
  runKey,
  type RunRecord,
  sessionKey,
  tapeName,
  turnKey,
} from "../../records/index.js";
import { hasEndedHere, isAlive, readOwner, decodeRunOfSession } from "../status/index.js";
import { isCertainlyDead } from "../../util/index.js";
import type { Frame } from "../../state/index.js";
import type { Check, RecordResult } from "../../store/index.js";
import { encodeEntries, type JournalOperation, readEntries, RecordedEffects } from "../journal/index.js";
import { type Leases, type Moment, currentMoment } from "../leases/index.js";

/** All that is known about a branch and its run, read at one moment. */
export interface RunSnapshot {
  readonly heads: Heads;
  readonly run: RunRecord | undefined;
  readonly journal: JournalRecord | undefined;
  readonly inbox: InboxRecord | undefined;
  /** That of the inbox is checked only where it matters. */
  readonly inboxCheck: Check;
  /** Who has the branch, where somebody has. */
  readonly owner: OwnerRecord | undefined;
  /** What the list of runs that are not over says about it. */
  readonly queueEntry: QueueEntry | undefined;
  /** The texts of the records, for a commit to check. */
  readonly checks: readonly Check[];
  readonly now: number;
}

export async function readRunSnapshot(reader: SessionReader, branch: string): Promise<RunSnapshot> {
  const { store } = reader.context;
  const { sessionId } = reader;
  const keys = [
    sessionKey(sessionId),
    branchKey(sessionId, branch),
    runKey(sessionId, branch),
    journalKey(sessionId, branch),
    inboxKey(sessionId, branch),
    queueEntryKey(sessionId, branch),
  ];
  const [session, head, runRecord, journalRecord, inboxRecord, dueRecord] = await store.get(keys);
  const heads = reader.toHeads(session, head, branch);
  const run = decodeRunOfSession(runRecord, heads, reader.context.registry);
  const number = heads.session?.record.number;
  const journal = readValue(journalRecord, decodeJournal);
  const inbox = readValue(inboxRecord, decodeInbox);
  const checks: Check[] = [runRecord, journalRecord].map((record, index) => ({
    key: keys[index + 2] as string,
    value: record && "value" in record ? record.value : undefined,
  }));
  // A damaged one is put anew by whoever goes on with it.
  if (!dueRecord || "value" in dueRecord) checks.push({ key: keys[5] as string, value: dueRecord?.value });
  const inboxCheck: Check = {
    key: keys[4] as string,
    value: inboxRecord && "value" in inboxRecord ? inboxRecord.value : undefined,
  };
  let owner: OwnerRecord | undefined;
  if (heads.branch?.record.held && run) {
    const [record] = await store.get([ownerKey(run.owner)]);
    owner = readOwner(record);
    // Who renews its lease meanwhile must not lose it.
    if (!record || "value" in record) checks.push({ key: ownerKey(run.owner), value: record?.value });
  }
  return {
    heads,
    run,
    journal: journal?.number === number ? journal : undefined,
    inbox,
    inboxCheck,
    queueEntry: dueRecord && "value" in dueRecord ? decodeQueueEntry(dueRecord.value) : undefined,
    owner,
    checks,
    now: await store.now(),
  };
}

function readValue<T>(record: RecordResult | undefined, decode: (value: string) => T): T | undefined {
  if (!record) return undefined;
  if ("value" in record) return decode(record.value);
  throw new SavepointError(
    "DAMAGED",
    `What a run has recorded is damaged: ${record.unreadable}. Rewind to a checkpoint that you trust, and run on from there.`,
  );
}

/**
 * The checks for claiming a branch: it is free, its owner is gone, or its owner belongs to this process and no longer runs it.
 * `ALREADY_RUNNING` otherwise.
 *
 * @param self the caller's own leases: what it has itself and does not run any more is its to take
 */
export function checkClaimable(
  reader: SessionReader,
  branch: string,
  view: RunSnapshot,
  self: string | undefined,
): CommitParts {
  const { heads, run, owner, now, checks } = view;
  if (!heads.branch?.record.held || !run || run.owner === self) return { checks };
  if (hasEndedHere(run.owner, reader.sessionId, branch)) return { checks };
  if (owner && isAlive(owner, now)) throw alreadyRunning(reader.sessionId, branch, owner);
  // A dead one is dead by any clock; otherwise the store's clock decides once more, inside the commit.
  const expired = owner && !isCertainlyDead(owner.process);
  return { checks, ...(expired && { notBefore: owner.until }) };
}

/** A branch that is this process's to write, and where its work stands. */
export interface Claim {
  readonly number: number;
  /** When it was still to be taken. */
  readonly preparedAt: Moment;
  readonly createdAt: number;
  /** The branch's own tape. */
  readonly tape: number;
  readonly run: RunRecord;
  readonly journal: JournalRecord;
  readonly queueEntry: QueueEntry;
  /** The checkpoint that the current step began with. */
  readonly boundary: CheckpointRow;
}

/** What to change about a run that is taken. */
export interface ClaimRequest {
  readonly agent: string;
  readonly input?: string | undefined;
  readonly key?: string | undefined;
  /** Begin the step anew. */
  readonly restartStep: boolean;
  /** Is it a loop outside that works on it? */
  readonly open?: boolean;
}

/** So many are remembered of those that something was taken over from. */
const REMEMBERED = 100;

/** What is said of a run that somebody begins to work on. */
export function buildClaimEntry(
  { sessionId }: SessionReader,
  { queueEntry, run, heads, journal }: RunSnapshot,
  agent: string,
  open: boolean,
  owner: string,
): QueueEntry {
  const known = queueEntry ?? newQueueEntry(agent, 0);
  const { held, name = "" } = heads.branch?.record ?? {};
  // An owner that has not released the branch may have crashed because of it, unless it belongs to this process.
  const isLost = held && run && run.owner !== owner && !hasEndedHere(run.owner, sessionId, name);
  const from = isLost ? run.owner : undefined;
  const lostAt = from === undefined ? undefined : journal?.boundary;
  const before = lostAt !== undefined && known.lostAtSeq === lostAt ? known.lostOwners : [];
  const lost = from === undefined ? [] : [...before.filter((each) => each !== from), from].slice(-REMEMBERED);
  return { ...known, agent, readyAt: 0, external: open, owner, lostOwners: lost, lostAtSeq: lostAt };
}

/** Takes a branch that has a head, as it stands; `undefined` where somebody else was faster. */
export async function claimBranch(
  reader: SessionReader,
  branch: string,
  view: RunSnapshot,
  leases: Leases,
  cursor: BranchCursor,
  taking: ClaimRequest,
): Promise<Claim | undefined> {
  const { sessionId } = reader;
  const { session, branch: known } = view.heads as { session: NonNullable<Heads["session"]>; branch: Heads["branch"] };
  const head = known?.record.head as CheckpointRow;
  const { number } = session.record;
  const parts = checkClaimable(reader, branch, view, leases.owner);
  const epoch = (known?.record.epoch ?? 0) + 1;
  const resumed = await resumePoint(reader, number, view, head, taking.restartStep, session.record.nextTape);
  const boundary = await findBoundary(reader, number, resumed.journal.boundary, head);
  const journal: JournalRecord = { ...resumed.journal, epoch, cancelReason: undefined };
  const run = buildRunningRecord(view, {
    number,
    agent: taking.agent,
    owner: leases.owner,
    turn: view.run?.turn ?? head.run?.turn ?? 1,
    input: view.run?.input ?? taking.input ?? "",
    key: view.run?.key ?? taking.key,
  });
  const { tape, first } = resumed.items;
  const due = buildClaimEntry(reader, view, taking.agent, taking.open ?? false, leases.owner);
  const dueChange = changeQueueEntry(sessionId, branch, view.queueEntry, due);
  const lease = await leases.prepareClaim();
  const at = currentMoment(reader.context);
  const built = buildCommit({
    sessionId,
    sessionBefore: session,
    session: { ...session.record, nextTape: session.record.nextTape + (resumed.newTape ? 1 : 0) },
    branchBefore: known,
    branch: { ...(known as LoadedRecord<NonNullable<typeof known>["record"]>).record, epoch, held: true },
    rows: [],
    extension: {
      ...parts,
      puts: [
        { key: runKey(sessionId, branch), value: encodeRun(run, reader.context.registry) },
        { key: journalKey(sessionId, branch), value: encodeJournal(journal) },
        ...dueChange.puts,
        ...lease.puts,
        ...(view.run === undefined && taking.key !== undefined
          ? [{ key: turnKey(sessionId, branch, taking.key), value: JSON.stringify([number, run.turn]) }]
          : []),
      ],
      ...(dueChange.deletes.length > 0 && { deletes: dueChange.deletes }),
      ...(lease.wakes && { wakes: lease.wakes }),
      items:
        resumed.items.frames.length > 0 ? [{ tape: tapeName(number, tape), first, items: resumed.items.frames }] : [],
      blobs: resumed.items.blobs,
    },
  });
  try {
    await cursor.exclusive(async () => {
      await reader.context.store.commit(built.commit);
      cursor.adoptCommit(built);
    });
  } catch (error) {
    if (isSavepointError(error, "CONFLICT")) return undefined;
    throw error;
  }
  return {
    preparedAt: at,
    number,
    createdAt: session.record.createdAt,
    tape: built.branch.record.tape,
    run,
    journal,
    queueEntry: due,
    boundary,
  };
}

/** A run that goes on, or begins: nothing is asked, and nothing is wrong. */
export function buildRunningRecord(
  view: RunSnapshot,
  fields: Pick<RunRecord, "number" | "agent" | "owner" | "turn" | "input" | "key">,
): RunRecord {
  return {
    ...fields,
    status: "running",
    reason: undefined,
    head: undefined,
    questions: [],
    wakeAt: undefined,
    startedAt: view.run?.startedAt ?? view.now,
    code: undefined,
  };
}

interface ResumePoint {
  readonly journal: JournalRecord;
  readonly newTape: boolean;
  /** What is written to the journal's tape when it is taken. */
  readonly items: {
    readonly tape: number;
    readonly first: number;
    readonly frames: readonly Frame[];
    readonly blobs: ReadonlyMap<string, Uint8Array>;
  };
}

/** Where work on a branch goes on: the boundary of its step, and what was recorded since. */
async function resumePoint(
  reader: SessionReader,
  number: number,
  view: RunSnapshot,
  head: CheckpointRow,
  restartStep: boolean,
  nextTape: number,
): Promise<ResumePoint> {
  const known = view.journal;
  const base = known ?? emptyJournal(number, nextTape, head.seq);
  const end = base.first + base.count;
  const boundary = head.run?.midStep ? head.run.boundary : head.seq;
  const goesOn = known?.head === head.seq;
  const nothing = { tape: base.tape, first: end, frames: [], blobs: new Map<string, Uint8Array>() };
  if (goesOn && !restartStep) return { journal: known, newTape: false, items: nothing };
  // The branch was moved, or is a new one: its head says what belongs to it.
  const recorded = goesOn
    ? { tape: known.tape, start: known.first, count: known.count }
    : head.run?.midStep
      ? head.run.journal
      : undefined;
  const { entries, frames } = recorded
    ? await readEntries(reader, number, recorded)
    : { entries: [] as readonly JournalOperation[], frames: [] as readonly Frame[] };
  const { items, blobs } = restartStep
    ? encodeEntries(keepTools(entries), base.tape, end)
    : { items: frames.map((frame) => moveEntry(frame, recorded?.tape ?? 0, base.tape)), blobs: nothing.blobs };
  return {
    journal: {
      ...base,
      first: end,
      count: items.length,
      boundary: goesOn ? base.boundary : boundary,
      head: head.seq,
      origin: goesOn ? base.origin : head.seq,
      failures: 0,
      loop: goesOn ? base.loop : "",
    },
    newTape: known === undefined,
    items: { ...nothing, frames: items, blobs },
  };
}

/** An entry on another tape; the parts that belong to it stay where they are. */
function moveEntry(frame: Frame, from: number, to: number): Frame {
  return rebaseFrame({ json: frame.json.replace(/^\{"m":\d+/, '{"m":0'), refs: frame.refs }, from, to);
}

/** What tools have answered, or whether they were begun, for a step that is begun anew. */
function keepTools(entries: readonly JournalOperation[]): JournalOperation[] {
  const { byIndex, kept } = new RecordedEffects(entries);
  const tools = [...kept, ...byIndex.values()].filter(
    ({ started, outcome, isUnknown }) => started.kind === "tool" && (outcome !== undefined || isUnknown),
  );
  return tools.map(({ started, outcome }, index) => ({ op: "kept", index, started, ...(outcome && { outcome }) }));
}

async function findBoundary(
  reader: SessionReader,
  number: number,
  seq: number,
  head: CheckpointRow,
): Promise<CheckpointRow> {
  if (seq === head.seq) return head;
  const row = await reader.row(number, seq);
  if (row && !("unreadable" in row)) return row;
  throw new SavepointError(
    "DAMAGED",
    `Checkpoint ${reader.sessionId}#${seq}, with which the current step began, ${row ? `is damaged: ${row.unreadable}` : "is gone"}. Rewind to another one, and run on from there.`,
  );
}
