/** Inputs that are queued for a session. */
import { SavepointError } from "../../errors.js";
import {
  changeQueueEntry,
  decodeInbox,
  encodeInbox,
  encodeQueuedInput,
  encodeRun,
  inboxKey,
  inputKey,
  MAIN,
  newQueueEntry,
  runKey,
  type RunRecord,
  sessionKey,
  turnKey,
} from "../../records/index.js";
import type { Put } from "../../store/index.js";
import { branchNotFound, type SessionReader } from "../../sessions/index.js";
import { retryOnConflict } from "../../util/index.js";
import { readRunSnapshot } from "../claims/index.js";
import { hashText } from "../journal/index.js";

/**
 * Queues an input for a branch. It becomes a turn after the inputs that were queued before it, even if the session was
 * enqueued and has not started.
 *
 * @param input in its encoded form
 * @returns `false` if an input with the same key was queued or has started a turn before
 */
export async function sendInput(
  reader: SessionReader,
  branch: string,
  input: string,
  key: string | undefined,
): Promise<boolean> {
  const { sessionId, context } = reader;
  // A run that writes its journal all the time makes many attempts fail, and an input must arrive all the same.
  const options = { maxAttempts: Number.POSITIVE_INFINITY };
  return retryOnConflict(async () => {
    const { heads, run, queueEntry, checks, now } = await readRunSnapshot(reader, branch);
    const number = heads.session?.record.number;
    const agent = run?.agent ?? heads.session?.record.agent;
    if (number === undefined || agent === undefined) throw sessionNotRunnable(sessionId, number !== undefined);
    // A session that was enqueued has a run and no branch until it starts.
    if (!heads.branch && (!run || branch !== MAIN)) throw branchNotFound(sessionId, branch);
    const [inboxRecordKey, keyOfTurn] = [inboxKey(sessionId, branch), turnKey(sessionId, branch, key ?? "")];
    const [counters, turn] = await context.store.get([inboxRecordKey, keyOfTurn]);
    const isOfSession = turn && "value" in turn && (JSON.parse(turn.value) as [number])[0] === number;
    if (key !== undefined && isOfSession) return false;
    const value = counters && "value" in counters ? counters.value : undefined;
    const { first, next } = value === undefined ? { first: 0, next: 0 } : decodeInbox(value);
    const puts: Put[] = [
      { key: inboxRecordKey, value: encodeInbox({ first, next: next + 1 }) },
      { key: inputKey(sessionId, branch, next), value: encodeQueuedInput({ key, input }) },
    ];
    // The number of its turn: the queued inputs before it come first.
    const turnNumber = (run?.turn ?? 0) + (next - first) + 1;
    if (key !== undefined) puts.push({ key: keyOfTurn, value: JSON.stringify([number, turnNumber]) });
    // A session that was cancelled before it started is enqueued again, with this input as its first.
    if (!heads.branch && run && run.status !== "queued") {
      const queued: RunRecord = { ...run, status: "queued", reason: undefined, input: hashText(input), key };
      puts.push({ key: runKey(sessionId, branch), value: encodeRun(queued, context.registry) });
    }
    // A session without a queue entry is not running, and can start the turn now.
    if (!queueEntry) puts.push(...changeQueueEntry(sessionId, branch, undefined, newQueueEntry(agent, now)).puts);
    await context.store.commit({
      checks: [{ key: sessionKey(sessionId), exists: true }, { key: inboxRecordKey, value }, ...checks],
      puts,
      ...(!queueEntry && { wakes: [agent] }),
    });
    return true;
  }, options);
}

/** The error for a session that no agent can run. */
export function sessionNotRunnable(sessionId: string, exists: boolean): SavepointError {
  const why = exists ? "has no agent" : "does not exist";
  return new SavepointError(
    "SESSION_NOT_FOUND",
    `Session ${JSON.stringify(sessionId)} ${why}, so no run can receive this. Start it with sp.run().`,
  );
}
