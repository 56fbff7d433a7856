/** What others have to say to a run: answers to what it asked, further inputs, and that it should stop. */
import { isSavepointError, SavepointError } from "../../errors.js";
import {
  branchKey,
  changeQueueEntry,
  decodeInbox,
  decodeJournal,
  encodeInbox,
  encodeJournal,
  encodeQueuedInput,
  encodeRun,
  inboxKey,
  inputKey,
  journalKey,
  type JournalRecord,
  MAIN,
  newQueueEntry,
  type Question,
  type CheckpointRow,
  runKey,
  type RunRecord,
  sessionKey,
  tapeName,
  turnKey,
} from "../../records/index.js";
import { type Commit, prefixRange, type Put } from "../../store/index.js";
import { decideWorkStatus } from "../status/index.js";
import { branchNotFound, describeBranch, type SessionReader, toCommit } from "../../sessions/index.js";
import { cancelledRun, readRunSnapshot, releaseBranch } from "../claims/index.js";
import { encodeEntries, encodeNamed, type JournalOperation, hashText, settleValue } from "../journal/index.js";

/** Records an answer. The run is not gone on with: whoever runs it next finds it. */
export async function recordAnswer(
  reader: SessionReader,
  branch: string,
  value: unknown,
  questionId: string | undefined,
): Promise<void> {
  const { sessionId } = reader;
  for (;;) {
    const view = await readRunSnapshot(reader, branch);
    const { run, journal, heads } = view;
    if (!heads.session) throw nobodyThere(sessionId, false);
    const head = heads.branch?.record.head;
    const open = run && run.head === head?.seq && !heads.branch?.record.held ? run.questions : [];
    const question = questionId === undefined ? open[0] : open.find(({ id }) => id === questionId);
    if (!question || !run || !journal) throw notWaiting(sessionId, branch, open, questionId);
    const entry = toEntry(question, value, reader);
    const { items, blobs } = encodeEntries([entry], journal.tape, journal.first + journal.count);
    const questions = open.filter((other) => other !== question);
    const answered: RunRecord = { ...run, status: "queued", reason: undefined, questions };
    const due = { ...(view.queueEntry ?? newQueueEntry(run.agent, 0)), readyAt: view.now };
    const change = changeQueueEntry(sessionId, branch, view.queueEntry, due);
    const commit = toCommit({
      checks: view.checks,
      puts: [
        { key: runKey(sessionId, branch), value: encodeRun(answered, reader.context.registry) },
        {
          key: journalKey(sessionId, branch),
          value: encodeJournal({ ...journal, count: journal.count + items.length }),
        },
        ...change.puts,
      ],
      deletes: change.deletes,
      wakes: [run.agent],
      items: [{ tape: tapeName(journal.number, journal.tape), first: journal.first + journal.count, items }],
      blobs,
    });
    if (await tryCommit(reader, commit)) return;
  }
}

function toEntry(question: Question, value: unknown, reader: SessionReader): JournalOperation {
  const { registry } = reader.context;
  const index = Number(question.id.slice(1));
  const encode = (result: unknown): JournalOperation => ({
    op: "end",
    index,
    outcome: { value: encodeNamed("The answer", () => settleValue(result, registry)) },
  });
  if (question.kind === "ask") return encode(value);
  const { happened, result } = (value ?? {}) as { happened?: unknown; result?: unknown };
  if (happened === true) return encode(result);
  if (happened === false) return { op: "again", index };
  throw new SavepointError(
    "INVALID_ARGUMENT",
    `Session ${JSON.stringify(reader.sessionId)} wants to know whether ${JSON.stringify(question.call?.name)} happened. Answer { happened: true, result } or { happened: false }.`,
    { details: { question } },
  );
}

function notWaiting(
  sessionId: string,
  branch: string,
  open: readonly Question[],
  questionId: string | undefined,
): SavepointError<"NOT_WAITING"> {
  const what =
    questionId === undefined || open.length === 0 ? "an answer" : `an answer to ${JSON.stringify(questionId)}`;
  const others = open.length > 0 ? ` It asks ${open.map(({ id }) => JSON.stringify(id)).join(", ")}.` : "";
  return new SavepointError(
    "NOT_WAITING",
    `${describeBranch(sessionId, branch)} does not wait for ${what}.${others} sp.sessions.load() says how it stands.`,
    { details: { sessionId, branch, questions: open } },
  );
}

/**
 * Queues an input for the branch: it becomes a turn after the inputs that were queued before it, even if the session was
 * enqueued and has not started. `false` if an input with the same key was sent or taken before.
 */
export async function sendInput(
  reader: SessionReader,
  branch: string,
  input: string,
  key: string | undefined,
): Promise<boolean> {
  const { sessionId } = reader;
  const { store } = reader.context;
  for (;;) {
    const view = await readRunSnapshot(reader, branch);
    const { heads, run } = view;
    const number = heads.session?.record.number;
    const agent = run?.agent ?? heads.session?.record.agent;
    if (number === undefined || agent === undefined) throw nobodyThere(sessionId, number !== undefined);
    // A session that was enqueued has a run and no branch until it starts.
    if (!heads.branch && (!run || branch !== MAIN)) throw branchNotFound(sessionId, branch);
    const keys = [inboxKey(sessionId, branch), turnKey(sessionId, branch, key ?? "")];
    const [counters, turn] = await store.get(keys);
    const sameSession = turn && "value" in turn && (JSON.parse(turn.value) as [number])[0] === number;
    if (key !== undefined && sameSession) return false;
    const value = counters && "value" in counters ? counters.value : undefined;
    const { first, next } = value === undefined ? { first: 0, next: 0 } : decodeInbox(value);
    const puts: Put[] = [
      { key: inboxKey(sessionId, branch), value: encodeInbox({ first, next: next + 1 }) },
      { key: inputKey(sessionId, branch, next), value: encodeQueuedInput({ key, input }) },
    ];
    // The turn it will be: those that wait before it come first.
    const turnNumber = (run?.turn ?? 0) + (next - first) + 1;
    if (key !== undefined) puts.push({ key: keys[1] as string, value: JSON.stringify([number, turnNumber]) });
    // A session that was cancelled before it started is enqueued again, with this input as its first.
    if (!heads.branch && run && run.status !== "queued") {
      const queued: RunRecord = { ...run, status: "queued", reason: undefined, input: hashText(input), key };
      puts.push({ key: runKey(sessionId, branch), value: encodeRun(queued, reader.context.registry) });
    }
    // What is under way goes first; what is over can take it now.
    if (!view.queueEntry)
      puts.push(...changeQueueEntry(sessionId, branch, undefined, newQueueEntry(agent, view.now)).puts);
    const commit: Commit = {
      checks: [{ key: sessionKey(sessionId), exists: true }, { key: keys[0] as string, value }, ...view.checks],
      puts,
      ...(!view.queueEntry && { wakes: [agent] }),
    };
    if (await tryCommit(reader, commit)) return true;
  }
}

function nobodyThere(sessionId: string, exists: boolean): SavepointError {
  const why = exists ? "has no agent" : "does not exist";
  return new SavepointError(
    "SESSION_NOT_FOUND",
    `Session ${JSON.stringify(sessionId)} ${why}, so there is nobody to tell. Begin it with sp.run().`,
  );
}

/**
 * Cancels a run. `requested`: it is running, and is halted by the process that runs it or by the next one that claims it.
 * `done`: it was not running, and is halted now. `over`: there is nothing to cancel. If there are several, the first applies.
 *
 * @param self returns the caller's own leases; called when the branch has been read
 */
export async function requestCancel(
  reader: SessionReader,
  branch: string,
  reason: string,
  self: () => string | undefined,
): Promise<"requested" | "done" | "over"> {
  const { sessionId } = reader;
  for (;;) {
    const view = await readRunSnapshot(reader, branch);
    const { heads, run, journal } = view;
    const head: CheckpointRow | undefined = heads.branch?.record.head;
    if (!run) return "over";
    if (heads.branch?.record.held) {
      if (!journal) return "over";
      try {
        // Its process is gone: this process halts it.
        if (await releaseBranch(reader, branch, self, () => cancelledRun(reason))) return "done";
      } catch (error) {
        if (!isSavepointError(error, "ALREADY_RUNNING")) throw error;
        if (await addCancel(reader, branch, journal, reason)) return "requested";
      }
      continue;
    }
    const { status, isCurrent } = decideWorkStatus(heads, run);
    const isWaiting = isCurrent && (status === "waiting" || status === "queued");
    // It was released unfinished, or its branch was rewound while inputs were queued: the next process would resume it.
    const isInterrupted = status === "running" && typeof view.queueEntry?.readyAt === "number";
    if (!isWaiting && !isInterrupted) return "over";
    const halted: RunRecord = {
      ...run,
      ...cancelledRun(reason),
      head: head?.seq,
      questions: [],
      wakeAt: undefined,
    };
    const commit: Commit = {
      checks: view.checks,
      puts: [{ key: runKey(sessionId, branch), value: encodeRun(halted, reader.context.registry) }],
      deletes: [
        ...changeQueueEntry(sessionId, branch, view.queueEntry, undefined).deletes,
        // If the session has not started, its queued inputs are dropped, and their keys can be used again.
        ...(head ? [] : [prefixRange(inboxKey(sessionId, branch)), prefixRange(turnKey(sessionId, branch, ""))]),
      ],
    };
    if (await tryCommit(reader, commit)) return "done";
  }
}

/**
 * Adds a cancel to the journal of a run; `false` if the run has released or lost the branch. Each write of the run replaces
 * the journal's record, so as little as possible happens between reading that record and replacing it. A release replaces it
 * too: while the record is unchanged, the branch is held.
 */
async function addCancel(
  reader: SessionReader,
  branch: string,
  { number, epoch }: JournalRecord,
  reason: string,
): Promise<boolean> {
  const { sessionId, context } = reader;
  const key = journalKey(sessionId, branch);
  for (;;) {
    const [record, session, head] = await context.store.get([key, sessionKey(sessionId), branchKey(sessionId, branch)]);
    const isHeld = reader.toHeads(session, head, branch).branch?.record.held;
    if (!isHeld || !record || !("value" in record)) return false;
    const journal = decodeJournal(record.value);
    if (journal.number !== number || journal.epoch !== epoch) return false;
    if (journal.cancelReason !== undefined) return true;
    const value = encodeJournal({ ...journal, cancelReason: reason });
    if (await tryCommit(reader, { checks: [{ key, value: record.value }], puts: [{ key, value }] })) return true;
  }
}

/** `false` where something has changed meanwhile. */
async function tryCommit(reader: SessionReader, commit: Commit): Promise<boolean> {
  try {
    await reader.context.store.commit(commit);
    return true;
  } catch (error) {
    if (isSavepointError(error, "CONFLICT")) return false;
    throw error;
  }
}
