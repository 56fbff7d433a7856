/** Answers to the questions of a run. */
import { SavepointError } from "../../errors.js";
import {
  changeQueueEntry,
  encodeJournal,
  encodeRun,
  journalKey,
  newQueueEntry,
  type Question,
  runKey,
  type RunRecord,
  tapeName,
} from "../../records/index.js";
import { describeBranch, type SessionReader, toCommit } from "../../sessions/index.js";
import { retryOnConflict } from "../../util/index.js";
import { readRunSnapshot } from "../claims/index.js";
import { encodeEntries, encodeNamed, type JournalOperation, recordError, settleValue } from "../journal/index.js";
import { sessionNotRunnable } from "./input.js";

/**
 * Records the answer to a question in the journal, and schedules the run. It does not resume the run: a worker or the next
 * `sp.run()` does.
 *
 * @param questionId the id of the question; `undefined` for the first one
 */
export async function recordAnswer(
  reader: SessionReader,
  branch: string,
  value: unknown,
  questionId: string | undefined,
): Promise<void> {
  const { sessionId, context } = reader;
  await retryOnConflict(async () => {
    const { run, journal, heads, queueEntry, checks, now } = await readRunSnapshot(reader, branch);
    if (!heads.session) throw sessionNotRunnable(sessionId, false);
    const isSuspended = run && run.head === heads.branch?.record.head?.seq && !heads.branch?.record.held;
    const open = isSuspended ? run.questions : [];
    const question = questionId === undefined ? open[0] : open.find(({ id }) => id === questionId);
    if (!question || !run || !journal) throw notWaiting(sessionId, branch, open, questionId);
    const next = journal.first + journal.count;
    const { items, blobs } = encodeEntries([toEntry(question, value, reader)], journal.tape, next);
    const questions = open.filter((other) => other !== question);
    const answered: RunRecord = { ...run, status: "queued", reason: undefined, questions };
    const scheduled = { ...(queueEntry ?? newQueueEntry(run.agent, 0)), readyAt: now };
    const entryChange = changeQueueEntry(sessionId, branch, queueEntry, scheduled);
    const journalValue = encodeJournal({ ...journal, count: journal.count + items.length });
    const commit = toCommit({
      checks,
      puts: [
        { key: runKey(sessionId, branch), value: encodeRun(answered, context.registry) },
        { key: journalKey(sessionId, branch), value: journalValue },
        ...entryChange.puts,
      ],
      deletes: entryChange.deletes,
      wakes: [run.agent],
      items: [{ tape: tapeName(journal.number, journal.tape), first: next, items }],
      blobs,
    });
    await context.store.commit(commit);
  });
}

function toEntry(question: Question, value: unknown, reader: SessionReader): JournalOperation {
  const { registry } = reader.context;
  const index = Number(question.id.slice(1));
  const answeredAt = reader.context.now();
  const encode = (result: unknown): JournalOperation & { op: "end" } => ({
    op: "end",
    index,
    outcome: { value: encodeNamed("The answer", () => settleValue(result, registry)) },
    answeredAt,
  });
  if (question.kind === "ask") return encode(value);
  const { happened, result, failed } = (value ?? {}) as { happened?: unknown; result?: unknown; failed?: unknown };
  // Of an answer that contradicts itself, nothing is applied: it may repeat the call.
  if (failed === undefined) {
    if (happened === true) return { ...encode(result), settledBy: "answer" };
    if (happened === false) return { op: "again", index, settledBy: "answer" };
  } else if (typeof failed === "string" && failed !== "" && happened === undefined && result === undefined) {
    // An effect that fails with another error is executed again when its step is retried.
    const error = recordError(new SavepointError("OUTCOME_UNKNOWN", failed));
    return { op: "end", index, outcome: { error }, answeredAt, settledBy: "answer" };
  }
  throw new SavepointError(
    "INVALID_ARGUMENT",
    `Session ${JSON.stringify(reader.sessionId)} asks whether ${JSON.stringify(question.call?.name)} happened. Answer { happened: true, result }, { happened: false } or { failed: "the reason" }.`,
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
  const others = open.length > 0 ? ` Its open questions: ${open.map(({ id }) => JSON.stringify(id)).join(", ")}.` : "";
  return new SavepointError(
    "NOT_WAITING",
    `${describeBranch(sessionId, branch)} does not wait for ${what}.${others} Read its status with sp.sessions.load().`,
    { details: { sessionId, branch, questions: open } },
  );
}
