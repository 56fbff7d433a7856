/** Leaving a session for whoever has time for it. Nothing of the agent is called: its code may live elsewhere. */
import { isSavepointError, SavepointError } from "../../errors.js";
import {
  agentSessionKey,
  changeQueueEntry,
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
  sessionNumberKey,
  runKey,
  type RunRecord,
  sessionKey,
} from "../../records/index.js";
import { agentMismatch, type NumberSource, type SessionReader } from "../../sessions/index.js";
import { type Duration, toMilliseconds } from "../../util/index.js";
import { inputMismatch } from "./claim-run.js";
import { readRunSnapshot } from "../claims/index.js";
import { hashText } from "../journal/index.js";

/** How a session is left for others. */
export interface EnqueueOptions<Input = unknown> {
  readonly session: string;
  /** What to work on. */
  readonly input: Input;
  /**
   * Not before: a time, or so long from now by the store's clock.
   * @default at once
   */
  readonly runAt?: Date | Duration;
  /**
   * From 0 to 9. Those with the highest go first; among them those that have been due for longest.
   * @default 0
   */
  readonly priority?: number;
}

/** What is to be done, when, and how urgently. */
export interface Task {
  readonly agent: string;
  /** In its encoded form. */
  readonly input: string;
  readonly runAt: Date | Duration | undefined;
  readonly priority: number | undefined;
}

/** @returns whether it was left now: `false` where the session is there already */
export async function enqueue(reader: SessionReader, numbers: NumberSource, task: Task): Promise<boolean> {
  const { sessionId, context } = reader;
  const { agent, input } = task;
  const priority = checkPriority(task.priority);
  for (;;) {
    const view = await readRunSnapshot(reader, MAIN);
    const { session, branch } = view.heads;
    if (session?.record.agent !== undefined && session.record.agent !== agent) {
      throw agentMismatch(sessionId, session.record.agent, agent);
    }
    if (view.run || branch?.record.head) {
      const { run } = view;
      const unfinished = run && run.status !== "completed" && run.input !== "";
      if (unfinished && run.input !== hashText(input)) throw inputMismatch(sessionId, MAIN);
      return false;
    }
    const base = session?.record ?? newSessionRecord(await numbers.next(), context.now());
    const { number } = base;
    const run = queuedRun(number, agent, hashText(input), view.now);
    const place = view.inbox?.next ?? 0;
    const due = newQueueEntry(agent, timeOf(task.runAt, view.now), priority);
    const soon = due.readyAt !== null && due.readyAt <= view.now;
    try {
      await context.store.commit({
        checks: [{ key: sessionKey(sessionId), value: session?.value }, ...view.checks, view.inboxCheck],
        puts: [
          { key: sessionKey(sessionId), value: encodeSession({ ...base, agent }) },
          ...(session ? [] : [{ key: sessionNumberKey(number), value: sessionId }]),
          { key: agentSessionKey(agent, number), value: sessionId },
          { key: runKey(sessionId, MAIN), value: encodeRun(run, context.registry) },
          { key: inboxKey(sessionId, MAIN), value: encodeInbox({ first: place, next: place + 1 }) },
          { key: inputKey(sessionId, MAIN, place), value: encodeQueuedInput({ key: undefined, input }) },
          ...changeQueueEntry(sessionId, MAIN, view.queueEntry, due).puts,
        ],
        ...(soon && { wakes: [agent] }),
      });
      return true;
    } catch (error) {
      // Somebody else was faster: it is there now, or looks different.
      if (!isSavepointError(error, "CONFLICT")) throw error;
    }
  }
}

function queuedRun(number: number, agent: string, input: string, now: number): RunRecord {
  return {
    number,
    agent,
    status: "queued",
    reason: undefined,
    head: undefined,
    owner: "",
    turn: 0,
    input,
    key: undefined,
    questions: [],
    wakeAt: undefined,
    startedAt: now,
    code: undefined,
  };
}

function timeOf(runAt: Date | Duration | undefined, now: number): number {
  if (runAt === undefined) return now;
  if (!(runAt instanceof Date)) return now + toMilliseconds(runAt, "runAt");
  const time = runAt.getTime();
  if (Number.isNaN(time)) throw new SavepointError("INVALID_ARGUMENT", "runAt is no time: the Date is invalid.");
  return time;
}

function checkPriority(priority = LOWEST_PRIORITY): number {
  if (Number.isInteger(priority) && priority >= LOWEST_PRIORITY && priority <= HIGHEST_PRIORITY) return priority;
  throw new SavepointError(
    "INVALID_ARGUMENT",
    `The priority is ${String(priority)}. Give a whole number from ${LOWEST_PRIORITY} to ${HIGHEST_PRIORITY}; the highest goes first.`,
  );
}
