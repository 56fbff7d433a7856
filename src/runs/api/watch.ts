/** Watching a session from any process, by polling the store: often while it changes, less often while it does not. */
import { setTimeout as sleep } from "node:timers/promises";
import { type CheckpointInfo, decodeJournal, decodeRun, journalKey, runKey } from "../../records/index.js";
import type { RunEventBody } from "../../events/index.js";
import { readBranchStatuses } from "../status/index.js";
import { sessionDeleted, type SessionReader } from "../../sessions/index.js";
import { readEntries } from "../journal/index.js";

/** A stored change of a session. */
export type WatchEvent = Extract<RunEventBody, { readonly type: "status" | "checkpoint" | "effect" }>;

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
  let journalPosition = { boundary: -1, count: 0 };
  for (let idle = 0; !signal?.aborted; idle++) {
    checkOpen();
    const heads = await reader.heads(branch);
    const { session, branch: branchRecord } = heads;
    const { number, agent } = session?.record ?? {};
    const head = branchRecord?.record.head;
    if (number === undefined && lastStatus !== undefined) return;
    if (number !== undefined && head) {
      // The first event is the current head; earlier checkpoints are not reported.
      if (lastSeq < 0) lastSeq = head.seq - 1;
      for (const info of await checkpointsSince(reader, branch, number, agent, lastSeq, head.seq)) {
        yield { type: "checkpoint", checkpoint: info };
        idle = 0;
      }
      lastSeq = Math.max(lastSeq, head.seq);
      const effects = await effectsSince(reader, branch, number, journalPosition);
      journalPosition = effects.position;
      for (const event of effects.events) {
        yield event;
        idle = 0;
      }
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

/** The step that a journal belongs to, and the number of its items. */
interface JournalPosition {
  readonly boundary: number;
  readonly count: number;
}

async function effectsSince(
  reader: SessionReader,
  branch: string,
  number: number,
  last: JournalPosition,
): Promise<{ events: WatchEvent[]; position: JournalPosition }> {
  const [record] = await reader.context.store.get([journalKey(reader.sessionId, branch)]);
  if (!record || !("value" in record)) return { events: [], position: last };
  const { tape, first, count, boundary, number: ofSession } = decodeJournal(record.value);
  const from = boundary === last.boundary ? last.count : 0;
  const position = { boundary, count };
  if (ofSession !== number || count <= from) return { events: [], position };
  // Earlier entries are read again, because later ones contain only the number of their effect.
  const { entries } = await readEntries(reader, number, { tape, start: first, count });
  const { entries: earlier } = await readEntries(reader, number, { tape, start: first, count: from });
  const calls = new Map(entries.flatMap((entry) => ("started" in entry ? [[entry.index, entry.started]] : [])));
  const events = entries.slice(earlier.length).flatMap((entry): WatchEvent[] => {
    const call = calls.get(entry.index);
    if (!call || (entry.op !== "start" && entry.op !== "end")) return [];
    const { kind, name, callId } = call;
    return [{ type: "effect", kind, name, callId, phase: entry.op }];
  });
  return { events, position };
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
