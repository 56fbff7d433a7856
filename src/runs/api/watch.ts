/** Following a session, whoever runs it: by looking, often while something happens and less often while not. */
import { setTimeout as sleep } from "node:timers/promises";
import { type CheckpointInfo, decodeJournal, decodeRun, journalKey, runKey } from "../../records/index.js";
import type { Context } from "../../context.js";
import type { RunEventBody } from "../../events/index.js";
import { readBranchStatuses } from "../status/index.js";
import { sessionDeleted, type SessionReader } from "../../sessions/index.js";
import { readEntries } from "../journal/index.js";

/** What has happened in a session, as far as it is stored. */
export type WatchEvent = Extract<RunEventBody, { readonly type: "status" | "checkpoint" | "effect" }>;

export interface WatchOptions {
  /** @default "main" */
  readonly branch?: string;
  /**
   * Go on when the work is over, for its next turn.
   * @default false
   */
  readonly keepOpen?: boolean;
  /** Ends it. */
  readonly signal?: AbortSignal;
}

const FAST = 50;
const SLOW = 500;

/** How the session stands, then whatever changes. Ends when the work is over, or the session is deleted. */
export async function* watchSession(
  reader: SessionReader,
  options: WatchOptions,
  checkOpen: () => void,
): AsyncGenerator<WatchEvent> {
  const { branch = "main", keepOpen = false, signal } = options;
  let seen = -1;
  let told: string | undefined;
  let journalSeen = { boundary: -1, count: 0 };
  for (let idle = 0; !signal?.aborted; idle++) {
    checkOpen();
    const heads = await reader.heads(branch);
    const { session, branch: known } = heads;
    const { number, agent } = session?.record ?? {};
    const head = known?.record.head;
    if (number === undefined && told !== undefined) return;
    if (number !== undefined && head) {
      // What was there before is not told again.
      if (seen < 0) seen = head.seq - 1;
      for (const info of await checkpointsSince(reader, branch, number, agent, seen, head.seq)) {
        yield { type: "checkpoint", checkpoint: info };
        idle = 0;
      }
      seen = Math.max(seen, head.seq);
      const effects = await effectsSince(reader, branch, number, journalSeen);
      journalSeen = effects.seen;
      for (const event of effects.events) {
        yield event;
        idle = 0;
      }
      const [standing] = await readBranchStatuses(reader.context, [{ sessionId: reader.sessionId, branch, heads }]);
      if (standing) {
        const { status, reason, run } = standing;
        const waiting = status === "waiting" ? run : undefined;
        const now = JSON.stringify([status, reason, waiting?.questions.map(({ id }) => id), waiting?.wakeAt]);
        if (now !== told) {
          told = now;
          idle = 0;
          yield { type: "status", status, reason, question: waiting?.questions[0], wakeAt: waiting?.wakeAt };
        }
        const over = status === "completed" || status === "failed" || status === "halted";
        if (over && !keepOpen) return;
      }
    }
    await sleep(idle < 20 ? FAST : SLOW, undefined, signal ? { signal, ref: true } : {}).catch(() => {});
  }
}

async function checkpointsSince(
  reader: SessionReader,
  branch: string,
  number: number,
  agent: string | undefined,
  seen: number,
  head: number,
): Promise<CheckpointInfo[]> {
  if (head <= seen) return [];
  const seqs = Array.from({ length: head - seen }, (_, index) => seen + 1 + index);
  const rows = await reader.rows(number, seqs);
  const whole = rows.flatMap((row) => (row && !("unreadable" in row) && row.branch === branch ? [row] : []));
  return Promise.all(whole.map((row) => reader.loadInfo(number, row, agent)));
}

async function effectsSince(
  reader: SessionReader,
  branch: string,
  number: number,
  seen: { boundary: number; count: number },
): Promise<{ events: WatchEvent[]; seen: { boundary: number; count: number } }> {
  const [record] = await reader.context.store.get([journalKey(reader.sessionId, branch)]);
  if (!record || !("value" in record)) return { events: [], seen };
  const { tape, first, count, boundary, number: of } = decodeJournal(record.value);
  const from = boundary === seen.boundary ? seen.count : 0;
  const now = { boundary, count };
  if (of !== number || count <= from) return { events: [], seen: now };
  // What was known before is read again: a later entry says only the number of the effect that it is about.
  const { entries } = await readEntries(reader, number, { tape, start: first, count });
  const { entries: known } = await readEntries(reader, number, { tape, start: first, count: from });
  const calls = new Map(entries.flatMap((entry) => ("started" in entry ? [[entry.index, entry.started]] : [])));
  const events = entries.slice(known.length).flatMap((entry): WatchEvent[] => {
    const call = calls.get(entry.index);
    if (!call || (entry.op !== "start" && entry.op !== "end")) return [];
    const { kind, name, callId } = call;
    return [{ type: "effect", kind, name, callId, phase: entry.op }];
  });
  return { events, seen: now };
}

/** Waits until a run that is put aside can be gone on with. `SESSION_DELETED` if it never will be. */
export async function waitForChange(
  context: Context,
  reader: SessionReader,
  branch: string,
  wakeAt: number | undefined,
  checkOpen: () => void,
): Promise<void> {
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
