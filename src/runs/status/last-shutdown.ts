/** Detects whether earlier processes closed the store, and which runs a crash has interrupted. */
import { isSavepointError } from "../../errors.js";
import { covers, FIRST_PAGE_SIZE, type KeyRange, type RecordResult, scanPages, type Store } from "../../store/index.js";
import type { Context } from "../../context.js";
import {
  ALL_OPEN_PROCESSES,
  ALL_QUEUE_ENTRIES,
  type BranchName,
  branchKey,
  decodeQueueEntry,
  ENCRYPTION_KEY,
  ownerKey,
  parseQueueEntryKey,
  runKey,
  type RunRecord,
  sessionKey,
} from "../../records/index.js";
import { findCrashedProcesses, type InterruptedRun, type LastShutdown } from "../../events/index.js";
import { decideBranchStatus, decodeRunOfSession, isQueued, isRunning, noteDeadOwner, readOwner } from "./status.js";
import { type Heads, SessionReader } from "../../sessions/index.js";

const CLEAN: LastShutdown = { clean: true, processes: [], interrupted: [] };

/**
 * Few keys are between both ranges, so one read finds the processes and, if there are few, the queue entries too. It would also find
 * that the store is encrypted.
 */
const PROCESSES_AND_QUEUE: KeyRange = { from: ENCRYPTION_KEY, to: ALL_QUEUE_ENTRIES.to };

/**
 * Finds the processes that died without closing the store, and the runs that are interrupted. Nothing is written. Without a crash
 * the cost is one read.
 *
 * @returns also the keys of the registrations of these processes: until they are deleted, the crash is reported again
 */
export async function readLastShutdown(
  context: Context,
): Promise<{ readonly shutdown: LastShutdown; readonly registrations: readonly string[] }> {
  const { store } = context;
  if (!store.capabilities.durable) return { shutdown: CLEAN, registrations: [] };
  const first = await store.list(PROCESSES_AND_QUEUE, { limit: FIRST_PAGE_SIZE });
  const { processes, registrations } = await findCrashedProcesses(pagesFrom(store, first, ALL_OPEN_PROCESSES));
  if (processes.length === 0) return { shutdown: CLEAN, registrations };
  const interrupted: InterruptedRun[] = [];
  for await (const entries of pagesFrom(store, first, ALL_QUEUE_ENTRIES)) {
    interrupted.push(...(await findInterrupted(context, entries)));
  }
  return { shutdown: { clean: false, processes, interrupted }, registrations };
}

/** The pages of a range. The first one was read, and starts before the range or in it. */
async function* pagesFrom(store: Store, first: RecordResult[], range: KeyRange): AsyncGenerator<RecordResult[]> {
  const covered = first.filter(({ key }) => covers(range, key));
  if (covered.length > 0) yield covered;
  const last = first.at(-1)?.key ?? "";
  if (first.length < FIRST_PAGE_SIZE || last >= range.to) return;
  yield* scanPages(store, { from: last < range.from ? range.from : `${last}\u0001`, to: range.to });
}

/** Finds the interrupted runs among these queue entries: with one read, or with two if the entries do not name all owners. */
async function findInterrupted(context: Context, entries: readonly RecordResult[]): Promise<InterruptedRun[]> {
  const { store } = context;
  const branches = entries.map((entry) => ({ entry, name: parseQueueEntryKey(entry.key) }));
  const records = new Map<string, RecordResult | undefined>();
  const read = async (keys: readonly string[]): Promise<void> => {
    const missing = [...new Set(keys)].filter((key) => !records.has(key));
    const found = missing.length > 0 ? await store.get(missing) : [];
    for (const [index, key] of missing.entries()) records.set(key, found[index]);
  };
  await read(
    branches.flatMap(({ entry, name: { session, branch } }) => {
      const { owner } = "value" in entry ? decodeQueueEntry(entry.value) : { owner: undefined };
      const keys = [sessionKey(session), branchKey(session, branch), runKey(session, branch)];
      return owner === undefined ? keys : [...keys, ownerKey(owner)];
    }),
  );
  const decoded = branches.map(({ entry, name }) => ({ entry, name, work: decodeWork(context, name, records) }));
  await read(decoded.flatMap(({ work }) => (work?.owner === undefined ? [] : [ownerKey(work.owner)])));
  // Leases expire by the store's clock.
  const now = decoded.some(({ work }) => work?.owner !== undefined) ? await store.now() : 0;
  const interrupted: InterruptedRun[] = [];
  for (const { entry, name, work } of decoded) {
    const { session: sessionId, branch } = name;
    if (work) {
      const { heads, run, owner } = work;
      const record = owner === undefined ? undefined : records.get(ownerKey(owner));
      const isAlive = run !== undefined && isRunning(run, readOwner(record), { sessionId, branch }, now);
      if (owner !== undefined) noteDeadOwner(context, owner, record);
      // A status that was set for a checkpoint is never "interrupted", so notes are not read.
      const { status } = decideBranchStatus(heads, run, isAlive, isQueued(entry), undefined);
      if (status !== "interrupted") continue;
    }
    // A damaged session is reported too. It cannot be resumed before it is repaired.
    interrupted.push({ sessionId, branch });
  }
  return interrupted;
}

interface BranchWork {
  readonly heads: Heads;
  readonly run: RunRecord | undefined;
  readonly owner: string | undefined;
}

/** The records of a branch, and the owner that holds it; `undefined` if one of them is damaged. */
function decodeWork(
  context: Context,
  { session, branch }: BranchName,
  records: ReadonlyMap<string, RecordResult | undefined>,
): BranchWork | undefined {
  try {
    const reader = new SessionReader(context, session);
    const heads = reader.toHeads(records.get(sessionKey(session)), records.get(branchKey(session, branch)), branch);
    const run = decodeRunOfSession(records.get(runKey(session, branch)), heads, context.registry);
    return { heads, run, owner: heads.branch?.record.held ? run?.owner : undefined };
  } catch (error) {
    if (!isSavepointError(error, "DAMAGED")) throw error;
    return undefined;
  }
}
