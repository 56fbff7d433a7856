/** Enqueues a new session for a worker. No function of the agent is called, so its code may be in another process. */
import {
  agentSessionKey,
  changeQueueEntry,
  checkId,
  encodeInbox,
  encodeQueuedInput,
  encodeRun,
  encodeSession,
  HIGHEST_PRIORITY,
  inboxKey,
  inputKey,
  LOWEST_PRIORITY,
  MAIN,
  newQueueEntry,
  newSessionRecord,
  type RunRecord,
  sessionNumberKey,
  runKey,
  sessionKey,
} from "../../records/index.js";
import { agentMismatch, type NumberSource, type SessionReader } from "../../sessions/index.js";
import { type Duration, retryOnConflict, toMilliseconds, invalidArgument } from "../../util/index.js";
import { inputMismatch } from "./claim-run.js";
import { encodeInput } from "./options.js";
import { newRunRecord, readRunSnapshot } from "../claims/index.js";
import { hashText } from "../journal/index.js";
import { decideWorkStatus } from "../status/index.js";

/** Options of `sp.enqueue()`. */
export interface EnqueueOptions<Input = unknown> {
  readonly session: string;
  /** The input of the first turn. */
  readonly input: Input;
  /**
   * The earliest start: a date, or a duration from now by the store's clock.
   * @default now
   */
  readonly runAt?: Date | Duration;
  /**
   * From 0 to 9. Sessions with a higher priority start first; among equal ones, those that have been ready for longest.
   * @default 0
   */
  readonly priority?: number;
}

/**
 * Enqueues a session. It is idempotent: a session that exists with the same input, or has completed, is not enqueued again,
 * unless an error of its agent's code has ended it.
 *
 * @returns `false` if the session exists and is not enqueued again
 */
export async function enqueue(
  reader: SessionReader,
  numbers: NumberSource,
  agent: string,
  options: EnqueueOptions,
): Promise<boolean> {
  const { sessionId, context } = reader;
  const input = encodeInput(options.input, context.registry);
  checkId(agent, "name of an agent");
  const priority = checkPriority(options.priority);
  return retryOnConflict(async () => {
    const { heads, run, queueEntry, inbox, inboxCheck, checks, now } = await readRunSnapshot(reader, MAIN);
    const { session, branch } = heads;
    if (session?.record.agent !== undefined && session.record.agent !== agent) {
      throw agentMismatch(sessionId, session.record.agent, agent);
    }
    if (run || branch?.record.head) {
      const isUnfinished = run && run.status !== "completed" && run.input !== "";
      if (isUnfinished && run.input !== hashText(input)) throw inputMismatch(sessionId, MAIN);
      const { isCurrent, isCodeError } = decideWorkStatus(heads, run);
      if (!run || !isCurrent || !isCodeError) return false;
      // The code of the agent may have been fixed since the run failed.
      const queued: RunRecord = { ...run, status: "queued", reason: undefined, code: undefined, error: undefined };
      const entry = newQueueEntry(agent, toReadyTime(options.runAt, now), priority);
      const entryChange = changeQueueEntry(sessionId, MAIN, queueEntry, entry);
      await context.store.commit({
        checks,
        puts: [{ key: runKey(sessionId, MAIN), value: encodeRun(queued, context.registry) }, ...entryChange.puts],
        deletes: entryChange.deletes,
        wakes: [agent],
      });
      return true;
    }
    const record = session?.record ?? newSessionRecord(await numbers.next(), context.now());
    const { number } = record;
    const fields = { number, agent, status: "queued", owner: "", turn: 0, key: undefined, startedAt: now } as const;
    const queued = newRunRecord({ ...fields, input: hashText(input), stepsBefore: undefined });
    const place = inbox?.next ?? 0;
    const readyAt = toReadyTime(options.runAt, now);
    await context.store.commit({
      checks: [{ key: sessionKey(sessionId), value: session?.value }, ...checks, inboxCheck],
      puts: [
        { key: sessionKey(sessionId), value: encodeSession({ ...record, agent }) },
        ...(session ? [] : [{ key: sessionNumberKey(number), value: sessionId }]),
        { key: agentSessionKey(agent, number), value: sessionId },
        { key: runKey(sessionId, MAIN), value: encodeRun(queued, context.registry) },
        { key: inboxKey(sessionId, MAIN), value: encodeInbox({ first: place, next: place + 1 }) },
        { key: inputKey(sessionId, MAIN, place), value: encodeQueuedInput({ key: undefined, input }) },
        ...changeQueueEntry(sessionId, MAIN, queueEntry, newQueueEntry(agent, readyAt, priority)).puts,
      ],
      ...(readyAt <= now && { wakes: [agent] }),
    });
    return true;
  });
}

function toReadyTime(runAt: Date | Duration | undefined, now: number): number {
  if (runAt === undefined) return now;
  if (!(runAt instanceof Date)) return now + toMilliseconds(runAt, "runAt");
  const time = runAt.getTime();
  if (Number.isNaN(time)) throw invalidArgument("runAt must be a duration or a valid Date, got an invalid Date.");
  return time;
}

function checkPriority(priority = LOWEST_PRIORITY): number {
  if (Number.isInteger(priority) && priority >= LOWEST_PRIORITY && priority <= HIGHEST_PRIORITY) return priority;
  throw invalidArgument(
    `priority must be an integer from ${LOWEST_PRIORITY} to ${HIGHEST_PRIORITY}, got ${String(priority)}.`,
  );
}
