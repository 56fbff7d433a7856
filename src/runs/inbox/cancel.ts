/** Cancels of runs, from any process. */
import { isSavepointError } from "../../errors.js";
import {
  branchKey,
  changeQueueEntry,
  decodeJournal,
  encodeJournal,
  encodeRun,
  endStream,
  inboxKey,
  journalKey,
  type JournalRecord,
  runKey,
  sessionKey,
  turnKey,
} from "../../records/index.js";
import { prefixRange } from "../../store/index.js";
import { decideWorkStatus } from "../status/index.js";
import type { SessionReader } from "../../sessions/index.js";
import { unlessConflict } from "../../util/index.js";
import { cancelledRun, readRunSnapshot, releaseBranch } from "../claims/index.js";

/**
 * Cancels a run. `requested`: it is running, and is halted by the process that runs it or by the next one that claims it.
 * `done`: it was not running, and is halted now. `over`: there is nothing to cancel. The first of several cancels applies.
 *
 * @param self returns the owner id of the caller; called when the branch has been read
 */
export async function requestCancel(
  reader: SessionReader,
  branch: string,
  reason: string,
  self: () => string | undefined,
): Promise<"requested" | "done" | "over"> {
  const { sessionId, context } = reader;
  for (;;) {
    const { heads, run, journal, queueEntry, checks } = await readRunSnapshot(reader, branch);
    const head = heads.branch?.record.head;
    if (!run) return "over";
    if (heads.branch?.record.held) {
      if (!journal) return "over";
      try {
        // Its process has ended: this process halts it.
        if (await releaseBranch(reader, branch, { self, change: cancelledRun(reason) })) return "done";
      } catch (error) {
        if (!isSavepointError(error, "ALREADY_RUNNING")) throw error;
        if (await addCancel(reader, branch, journal, reason)) return "requested";
      }
      continue;
    }
    const { status, isCurrent } = decideWorkStatus(heads, run);
    const isWaiting = isCurrent && (status === "waiting" || status === "queued");
    // It was released unfinished, or its branch was rewound while inputs were queued: the next process would resume it.
    const isInterrupted = status === "running" && typeof queueEntry?.readyAt === "number";
    if (!isWaiting && !isInterrupted) return "over";
    const halted = { ...run, ...cancelledRun(reason), head: head?.seq, questions: [], wakeAt: undefined };
    const commit = context.store.commit({
      checks,
      puts: [
        { key: runKey(sessionId, branch), value: encodeRun(halted, context.registry) },
        // Its deltas are not needed any more.
        ...(journal?.stream
          ? [{ key: journalKey(sessionId, branch), value: encodeJournal({ ...journal, stream: endStream(journal) }) }]
          : []),
      ],
      deletes: [
        ...changeQueueEntry(sessionId, branch, queueEntry, undefined).deletes,
        // If the session has not started, its queued inputs are dropped, and their keys can be used again.
        ...(head ? [] : [prefixRange(inboxKey(sessionId, branch)), prefixRange(turnKey(sessionId, branch, ""))]),
      ],
    });
    if (await unlessConflict(commit)) return "done";
  }
}

/**
 * Adds a cancel to the journal of a run; `false` if the run has released or lost the branch. Each write of the run replaces
 * the journal's record, so as little as possible happens between reading that record and replacing it, and the number of
 * attempts is not limited. A release replaces the record too: while it is unchanged, the branch is held.
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
    const commit = context.store.commit({ checks: [{ key, value: record.value }], puts: [{ key, value }] });
    if (await unlessConflict(commit)) return true;
  }
}
