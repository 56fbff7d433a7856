/** The unfinished runs that no process executes, and those that are quarantined. */
import type { Context } from "../../context.js";
import {
  ALL_QUEUE_ENTRIES,
  ALL_RUNS,
  ALL_WORK,
  type BranchName,
  decodeQueueEntry,
  HIGHEST_PRIORITY,
  parseQueueEntryKey,
  parseRun,
  parseRunKey,
  parseWorkKey,
  type Question,
  type QueueEntry,
  queueEntriesOf,
  queueEntryKey,
  queueIndexKey,
  readyWork,
  runsOf,
} from "../../records/index.js";
import { SessionReader } from "../../sessions/index.js";
import { type KeyRange, scanPages } from "../../store/index.js";
import { isSavepointError } from "../../errors.js";
import { type BranchStatus, readBranchStatuses } from "../status/index.js";

/**
 * Why a run is in the queue:
 *
 * - `queued`: a worker can run it now;
 * - `scheduled`: it can be resumed at a later time;
 * - `waiting`: it waits for an answer;
 * - `interrupted`: its process has died or has released it;
 * - `quarantined`: it has crashed too many processes, and no worker resumes it.
 */
export type QueueState = "queued" | "scheduled" | "waiting" | "interrupted" | "quarantined";

/** An unfinished run that no process executes, or one that is quarantined. */
export interface QueuedRun {
  readonly sessionId: string;
  readonly branch: string;
  readonly agent: string;
  readonly state: QueueState;
  /** Its place among the queued runs of its agent, from 1; `undefined` in every other state, and if no worker can run it. */
  readonly position: number | undefined;
  /** From 0 to 9. Higher priorities are run first. */
  readonly priority: number;
  /** From when it can be run, in milliseconds since 1970; `undefined` while it waits for an answer or is quarantined. */
  readonly readyAt: number | undefined;
  /** The loop of the run belongs to the caller (`sp.openRun`), so no worker can resume it. */
  readonly external: boolean;
  /** The questions that it waits for. */
  readonly questions: readonly Question[];
  /** Why it is quarantined. */
  readonly reason: string | undefined;
}

/**
 * Lists the queue: first what workers can run, by agent and in their order; then what waits or was interrupted; then what is
 * quarantined. Reads every queue entry and every record of a run.
 *
 * @param agent only the runs of this agent
 */
export async function* listQueue(context: Context, agent: string | undefined): AsyncGenerator<QueuedRun> {
  const { store } = context;
  const now = await store.now();
  const positions = new Map<string, number>();
  const toRun = (stored: StoredEntry, status: BranchStatus): QueuedRun | undefined => {
    const state = decideState(stored.entry, status, now);
    if (state === undefined) return undefined;
    const isRunnable = state === "queued" && !stored.entry.external;
    const position = isRunnable ? (positions.get(stored.entry.agent) ?? 0) + 1 : undefined;
    if (position !== undefined) positions.set(stored.entry.agent, position);
    return describeRun(stored, status, state, position);
  };
  for await (const page of scanPages(store, ALL_WORK)) {
    const entries = await readEntries(
      context,
      page.map(({ key }) => ({ key, ...parseWorkKey(key) })),
      agent,
    );
    for (const [entry, status] of await withStatuses(context, entries)) {
      const run = toRun(entry, status);
      if (run) yield run;
    }
  }
  for await (const page of scanPages(store, ALL_QUEUE_ENTRIES)) {
    const entries = page.flatMap((record): StoredEntry[] => {
      if (!("value" in record)) return [];
      const entry = decodeQueueEntry(record.value);
      // The index above has every entry that a worker can run.
      const isIndexed = entry.owner === undefined && entry.readyAt !== null && !entry.external;
      return isIndexed || !isOfAgent(entry, agent) ? [] : [{ ...parseQueueEntryKey(record.key), entry }];
    });
    for (const [entry, status] of await withStatuses(context, entries)) {
      const run = toRun(entry, status);
      if (run) yield run;
    }
  }
  yield* listQuarantined(context, ALL_RUNS, agent);
}

/**
 * Like {@link listQueue} for one session. Reads only the records of this session and, for its position, the keys of the
 * entries that are ready before it.
 */
export async function* listQueueOf(
  context: Context,
  sessionId: string,
  agent: string | undefined,
): AsyncGenerator<QueuedRun> {
  const { store } = context;
  const now = await store.now();
  for await (const page of scanPages(store, queueEntriesOf(sessionId))) {
    const entries = page.flatMap((record): StoredEntry[] => {
      const entry = "value" in record ? decodeQueueEntry(record.value) : undefined;
      return entry && isOfAgent(entry, agent) ? [{ ...parseQueueEntryKey(record.key), entry }] : [];
    });
    for (const [stored, status] of await withStatuses(context, entries)) {
      const state = decideState(stored.entry, status, now);
      if (state === undefined) continue;
      const position = state === "queued" ? await findPosition(store, stored, now) : undefined;
      yield describeRun(stored, status, state, position);
    }
  }
  yield* listQuarantined(context, runsOf(sessionId), agent);
}

/** The place of an entry that a worker can run now; `undefined` if it has no index key, because no worker can run it. */
async function findPosition(
  store: Context["store"],
  { session, branch, entry }: StoredEntry,
  now: number,
): Promise<number | undefined> {
  const { agent, priority } = entry;
  const own = queueIndexKey(session, branch, entry);
  if (own === undefined || entry.owner !== undefined) return undefined;
  let position = 1;
  for (let each = HIGHEST_PRIORITY; each >= priority; each--) {
    const { from, to } = readyWork(agent, each, now);
    const range = { from, to: each === priority ? own : to };
    for await (const page of scanPages(store, range)) position += page.length;
  }
  return position;
}

function describeRun(
  { session, branch, entry }: StoredEntry,
  status: BranchStatus,
  state: QueueState,
  position: number | undefined,
): QueuedRun {
  return {
    sessionId: session,
    branch,
    agent: entry.agent,
    state,
    position,
    priority: entry.priority,
    readyAt: entry.readyAt ?? undefined,
    external: entry.external,
    questions: (state === "waiting" && status.run?.questions) || [],
    reason: status.reason,
  };
}

/** A queue entry with the branch that it belongs to. */
interface StoredEntry extends BranchName {
  readonly entry: QueueEntry;
}

/** Reads the entries that an index refers to. Stale index records are left out. */
async function readEntries(
  { store }: Context,
  names: readonly (BranchName & { readonly key: string })[],
  agent: string | undefined,
): Promise<StoredEntry[]> {
  const records = await store.get(names.map(({ session, branch }) => queueEntryKey(session, branch)));
  return names.flatMap(({ key, session, branch }, index) => {
    const record = records[index];
    const entry = record && "value" in record ? decodeQueueEntry(record.value) : undefined;
    const isListed = entry && queueIndexKey(session, branch, entry) === key && isOfAgent(entry, agent);
    return isListed ? [{ session, branch, entry }] : [];
  });
}

function isOfAgent(entry: { readonly agent: string }, agent: string | undefined): boolean {
  return agent === undefined || entry.agent === agent;
}

/** Decides the state of a queue entry; `undefined` if a process executes it, or if its run has ended. */
function decideState(entry: QueueEntry, { status, run }: BranchStatus, now: number): QueueState | undefined {
  const isReady = entry.readyAt !== null && entry.readyAt <= now;
  switch (status) {
    case "running":
      return undefined;
    case "interrupted":
      return "interrupted";
    case "waiting":
      if (isReady) return "queued";
      return entry.readyAt === null || (run?.questions.length ?? 0) > 0 ? "waiting" : "scheduled";
    default:
      // A session that has ended is queued again if it has received an input.
      return entry.readyAt === null ? undefined : isReady ? "queued" : "scheduled";
  }
}

/** Runs that have crashed too many processes. They have no queue entry, so the records of runs are read. */
async function* listQuarantined(
  context: Context,
  records: KeyRange,
  agent: string | undefined,
): AsyncGenerator<QueuedRun> {
  for await (const page of scanPages(context.store, records)) {
    const entries = page.flatMap((record) => {
      const name = "value" in record && record.value.includes('"quarantined":') ? parseRunKey(record.key) : undefined;
      const run = name && "value" in record ? parseRun(record.value) : undefined;
      return name && run?.quarantined && isOfAgent(run, agent) ? [{ ...name, agent: run.agent }] : [];
    });
    for (const [entry, { status, reason, run }] of await withStatuses(context, entries)) {
      if (status !== "failed" || !run?.quarantined) continue;
      const { session: sessionId, branch } = entry;
      const none = { position: undefined, readyAt: undefined, priority: 0, external: false, questions: [] };
      yield { sessionId, branch, agent: entry.agent, state: "quarantined", ...none, reason };
    }
  }
}

/** Reads the statuses of branches. Branches of a damaged session are left out: `sp.verify()` reports them. */
async function withStatuses<Entry extends BranchName>(
  context: Context,
  entries: readonly Entry[],
): Promise<[Entry, BranchStatus][]> {
  const queries = await Promise.all(
    entries.map(async (entry) => {
      const { session: sessionId, branch } = entry;
      try {
        return {
          entry,
          query: { sessionId, branch, heads: await new SessionReader(context, sessionId).heads(branch) },
        };
      } catch (error) {
        if (isSavepointError(error, "DAMAGED")) return undefined;
        throw error;
      }
    }),
  );
  const found = queries.filter((each) => each !== undefined);
  const statuses = await readBranchStatuses(
    context,
    found.map(({ query }) => query),
  );
  return found.map(({ entry }, index) => [entry, statuses[index] as BranchStatus]);
}
