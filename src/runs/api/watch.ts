/** Watching a session from any process, by polling the store: often while it changes, less often while it does not. */
import { setTimeout as sleep } from "node:timers/promises";
import {
  type CheckpointInfo,
  type CheckpointRow,
  decodeJournal,
  decodeRun,
  journalKey,
  type JournalRecord,
  runKey,
} from "../../records/index.js";
import type { RunEventBody } from "../../events/index.js";
import { readBranchStatuses } from "../status/index.js";
import { sessionDeleted, type SessionReader } from "../../sessions/index.js";
import { type EffectStart, type JournalOperation, readEntries } from "../journal/index.js";
import { isSavepointError } from "../../errors.js";

/** A stored change of a session. */
export type WatchEvent = Extract<RunEventBody, { readonly type: "status" | "checkpoint" | "effect" | "step" }>;

/** Options of `session.watch()`. */
export interface WatchOptions {
  /** @default "main" */
  readonly branch?: string;
  /**
   * Continue when the run has ended, to watch its next turn.
   * @default false
   */
  readonly keepOpen?: boolean;
  /** Ends the iteration when it is aborted. */
  readonly signal?: AbortSignal;
}

/** The polling intervals, in milliseconds. */
const FAST = 50;
const SLOW = 500;
/** The number of fast polls without a change before polling becomes slow. */
const FAST_POLLS = 20;

/** Yields the current status of a session, then its changes. Ends when the run has ended or the session is deleted. */
export async function* watchSession(
  reader: SessionReader,
  options: WatchOptions,
  checkOpen: () => void,
): AsyncGenerator<WatchEvent> {
  const { branch = "main", keepOpen = false, signal } = options;
  let lastSeq = -1;
  let lastStatus: string | undefined;
  let lastStep: number | undefined;
  let journalPosition = NO_JOURNAL;
  for (let idle = 0; !signal?.aborted; idle++) {
    checkOpen();
    const heads = await reader.heads(branch);
    const { session, branch: branchRecord } = heads;
    const { number, agent } = session?.record ?? {};
    const head = branchRecord?.record.head;
    if (number === undefined && lastStatus !== undefined) return;
    if (number !== undefined && head) {
      // Effects come before the checkpoint and the step that they are part of.
      const effects = await effectsSince(reader, branch, number, head, journalPosition);
      journalPosition = effects.position;
      for (const event of effects.events) {
        yield event;
        idle = 0;
      }
      const isMidStep = head.run?.midStep ?? false;
      const step = isMidStep ? head.step - 1 : head.step;
      if (head.run && lastStep !== undefined && step > lastStep) {
        yield { type: "step", step };
        idle = 0;
      }
      lastStep = step;
      // The first event is the current head; earlier checkpoints are not reported.
      if (lastSeq < 0) lastSeq = head.seq - 1;
      for (const info of await checkpointsSince(reader, branch, number, agent, lastSeq, head.seq)) {
        yield { type: "checkpoint", checkpoint: info };
        idle = 0;
      }
      lastSeq = Math.max(lastSeq, head.seq);
      const [current] = await readBranchStatuses(reader.context, [{ sessionId: reader.sessionId, branch, heads }]);
      if (current) {
        const { status, reason, run } = current;
        const waiting = status === "waiting" ? run : undefined;
        const key = JSON.stringify([status, reason, waiting?.questions.map(({ id }) => id), waiting?.wakeAt]);
        if (key !== lastStatus) {
          lastStatus = key;
          idle = 0;
          yield { type: "status", status, reason, question: waiting?.questions[0], wakeAt: waiting?.wakeAt };
        }
        const hasEnded = status === "completed" || status === "failed" || status === "halted";
        if (hasEnded && !keepOpen) return;
      }
    }
    await sleep(idle < FAST_POLLS ? FAST : SLOW, undefined, signal ? { signal, ref: true } : {}).catch(() => {});
  }
}

async function checkpointsSince(
  reader: SessionReader,
  branch: string,
  number: number,
  agent: string | undefined,
  lastSeq: number,
  headSeq: number,
): Promise<CheckpointInfo[]> {
  if (headSeq <= lastSeq) return [];
  const seqs = Array.from({ length: headSeq - lastSeq }, (_, index) => lastSeq + 1 + index);
  const rows = await reader.rows(number, seqs);
  const intact = rows.flatMap((row) => (row && !("unreadable" in row) && row.branch === branch ? [row] : []));
  return Promise.all(intact.map((row) => reader.loadInfo(number, row, agent)));
}

/** What was read of a journal: the items of the current step, from `first` up to `end`. */
interface JournalPosition {
  readonly tape: number;
  readonly first: number;
  readonly end: number;
}

const NO_JOURNAL: JournalPosition = { tape: -1, first: 0, end: 0 };

async function effectsSince(
  reader: SessionReader,
  branch: string,
  number: number,
  head: CheckpointRow,
  last: JournalPosition,
): Promise<{ events: WatchEvent[]; position: JournalPosition }> {
  const [record] = await reader.context.store.get([journalKey(reader.sessionId, branch)]);
  if (!record || !("value" in record)) return { events: [], position: last };
  const journal = decodeJournal(record.value);
  const { tape, first, count, number: ofSession } = journal;
  const position = { tape, first, end: first + count };
  if (ofSession !== number) return { events: [], position };
  // Steps that ended since the last poll have their entries before those of the current step, on the same tape. They are read from
  // the start of a step, because an entry for the end of an effect contains only its number.
  const isContinued = last.tape === tape && last.first <= first && last.end <= position.end;
  if (isContinued && last.end === position.end) return { events: [], position };
  const read = async (start: number, end: number): Promise<readonly JournalOperation[]> =>
    (await readEntries(reader, number, { tape, start, count: end - start })).entries;
  try {
    const from = isContinued ? last.first : first;
    const known = isContinued ? (await read(from, last.end)).length : 0;
    return { events: toEvents(await read(from, endOfEntries(journal, head)), known), position };
  } catch (error) {
    if (!isContinued || last.first === first || !isSavepointError(error, "DAMAGED")) throw error;
    // The run has saved a checkpoint after the head was read. The next poll reads both.
    if (journal.head > head.seq) return { events: [], position: last };
    // The entries of past steps may have been freed.
    return { events: toEvents(await read(first, position.end), 0), position };
  }
}

/** The end of the last entry of a journal. The output of a completed run follows its entries. */
function endOfEntries({ tape, first, count, head: seq }: JournalRecord, { seq: headSeq, run }: CheckpointRow): number {
  const output = count === 0 && seq === headSeq && run?.output?.tape === tape ? run.output : undefined;
  if (!output) return first + count;
  return run?.history ? run.history.start + run.history.count : output.start;
}

/** The events of entries, without those of the first `known` ones. */
function toEvents(entries: readonly JournalOperation[], known: number): WatchEvent[] {
  const calls = new Map<number, EffectStart>();
  return entries.flatMap((entry, at): WatchEvent[] => {
    if ("started" in entry && entry.started) calls.set(entry.index, entry.started);
    const call = calls.get(entry.index);
    if (at < known || !call || (entry.op !== "start" && entry.op !== "end")) return [];
    const { kind, name, callId } = call;
    return [{ type: "effect", kind, name, callId, phase: entry.op }];
  });
}

/** Resolves when a waiting run may be resumable. Throws `SESSION_DELETED` if its session was deleted. */
export async function waitForChange(
  reader: SessionReader,
  branch: string,
  wakeAt: number | undefined,
  checkOpen: () => void,
): Promise<void> {
  const { context } = reader;
  for (;;) {
    checkOpen();
    const [record] = await context.store.get([runKey(reader.sessionId, branch)]);
    if (!record) throw sessionDeleted(reader.sessionId);
    if (!("value" in record) || decodeRun(record.value, context.registry).status !== "waiting") return;
    const left = wakeAt === undefined ? SLOW : wakeAt - (await context.store.now());
    if (left <= 0) return;
    await sleep(Math.min(left, SLOW));
  }
}
