/** Scheduling runs that have ended or were interrupted, so that a worker resumes them. */
import {
  branchKey,
  changeQueueEntry,
  encodeRun,
  newQueueEntry,
  type QueueEntry,
  runKey,
  type RunRecord,
} from "../../records/index.js";
import { branchNotFound, type SessionReader, sessionNotFound } from "../../sessions/index.js";
import { invalidArgument, retryOnConflict } from "../../util/index.js";
import { hasPendingCancel, newRunRecord, readRunSnapshot, releaseBranch, type RunSnapshot } from "../claims/index.js";
import { decideWorkStatus, decodeRunOfSession, hasEndedHere, isAlive } from "../status/index.js";

/**
 * Schedules the run of a branch. A run whose process has died is released; one that has ended is queued again from where it
 * ended, with its recorded effects.
 *
 * @param self returns the owner id of the caller; called when the branch has been read
 * @returns `false` if the run needs no worker: it is running, waits, has completed or is scheduled already; or there is no run
 */
export async function requeueRun(
  reader: SessionReader,
  branch: string,
  self: () => string | undefined,
): Promise<boolean> {
  const { sessionId, context } = reader;
  return retryOnConflict(async () => {
    let snapshot = await readRunSnapshot(reader, branch);
    if (!snapshot.heads.session) throw sessionNotFound(sessionId);
    if (!snapshot.heads.branch && !snapshot.run) throw branchNotFound(sessionId, branch);
    if (snapshot.queueEntry?.external) throw externalRun(sessionId);
    if (isRunningElsewhere(snapshot, sessionId, branch)) return false;
    if (snapshot.heads.branch?.record.held || hasPendingCancel(snapshot)) {
      const released = await releaseBranch(reader, branch, { self, isUnfinished: true });
      // The release schedules it, unless it halts it because of an earlier cancel.
      if (released && released.cancelled === undefined) return true;
      snapshot = await readRunSnapshot(reader, branch);
    }
    const queued = queueAgain(snapshot);
    if (!queued) return false;
    if (queued.run.external || (await isForkOfExternal(reader, snapshot))) throw externalRun(sessionId);
    const change = changeQueueEntry(sessionId, branch, snapshot.queueEntry, queued.entry);
    await context.store.commit({
      checks: [...snapshot.checks, { key: branchKey(sessionId, branch), value: snapshot.heads.branch?.value }],
      puts: [{ key: runKey(sessionId, branch), value: encodeRun(queued.run, context.registry) }, ...change.puts],
      deletes: change.deletes,
      wakes: [queued.run.agent],
    });
    return true;
  });
}

function isRunningElsewhere({ heads, run, owner, now }: RunSnapshot, sessionId: string, branch: string): boolean {
  const isHeld = heads.branch?.record.held === true && run !== undefined;
  return isHeld && isAlive(owner, now) && !hasEndedHere(run.owner, sessionId, branch);
}

/** The records of a released run that is queued again; `undefined` if it needs no worker. */
function queueAgain({ heads, run, queueEntry, now }: RunSnapshot): { run: RunRecord; entry: QueueEntry } | undefined {
  const head = heads.branch?.record.head;
  const { number, agent } = heads.session?.record ?? {};
  const { status, isCurrent, isCodeError } = decideWorkStatus(heads, run);
  if (number === undefined || !head || status === "completed" || (isCurrent && status === "waiting")) return undefined;
  const hasEnded = status === "failed" || status === "halted";
  if (!hasEnded && typeof queueEntry?.readyAt === "number") return undefined;
  // A state that was saved by hand has no run.
  const name = run?.agent ?? agent;
  if ((!run && !head.run) || name === undefined) return undefined;
  const fields = {
    number,
    agent: name,
    owner: "",
    startedAt: now,
    turn: head.run?.turn ?? 1,
    input: "",
    key: undefined,
  };
  const { quarantined: _, ...before } = run ?? newRunRecord({ ...fields, status: "queued", stepsBefore: undefined });
  return {
    run: {
      ...before,
      status: "queued",
      head: head.seq,
      reason: undefined,
      code: undefined,
      error: undefined,
      wakeAt: undefined,
      questions: [],
      // The limits of the steps apply anew, as when an ended run is resumed by `sp.run()`.
      stepsBefore: isCurrent && !(hasEnded && !isCodeError) ? before.stepsBefore : undefined,
    },
    entry: { ...newQueueEntry(name, now, queueEntry?.priority) },
  };
}

/** Whether a branch that no run has used so far was forked from a turn of `sp.openRun()`. */
async function isForkOfExternal({ sessionId, context }: SessionReader, { heads, run }: RunSnapshot): Promise<boolean> {
  const origin = heads.branch?.record.head?.branch;
  if (run || origin === undefined) return false;
  const [record] = await context.store.get([runKey(sessionId, origin)]);
  return decodeRunOfSession(record, heads, context.registry)?.external === true;
}

function externalRun(sessionId: string): Error {
  return invalidArgument(
    `The run of session ${JSON.stringify(sessionId)} was started by sp.openRun(), so no worker can resume it: open its turn again in its own program.`,
  );
}
