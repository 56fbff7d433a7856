/**
 * Finding what is to be done: what has come due, and what was left by processes that are gone. Neither looks at what is
 * under way or waits, however much of that there is.
 */
import { isSavepointError } from "../../errors.js";
import type { Context } from "../../context.js";
import {
  ALL_OWNERS,
  changeQueueEntry,
  decodeQueueEntry,
  queueEntryKey,
  HIGHEST_PRIORITY,
  LOWEST_PRIORITY,
  ownedBy,
  ownerKey,
  type OwnerRecord,
  queueIndexKey,
  parseOwnedKey,
  parseWorkKey,
  priorityOfWorkKey,
  readyWork,
  workUpToPriority,
} from "../../records/index.js";
import { isAlive, readOwner } from "../status/index.js";
import { type KeyRange, scan, type Store } from "../../store/index.js";

/** Something that nobody does. */
export interface PendingWork {
  readonly session: string;
  readonly branch: string;
  /** The record by which it was found. */
  readonly key: string;
}

/** Something that was left in the middle. */
export interface Orphan extends PendingWork {
  /** The leases under which it was left. */
  readonly owner: string;
  /** From how many others it was taken over before, within the same step. */
  readonly takeovers: number;
}

/** While whoever was given it begins with it, others are given something else. */
const RESERVED_FOR = 5000;

/**
 * What of these agents has come due: the most urgent first.
 *
 * @param isSkipped what is left out: it must not stand in the way of what comes after it
 */
export async function findScheduledWork(
  { store }: Context,
  agents: readonly string[],
  limit: number,
  isSkipped: (work: PendingWork) => boolean,
): Promise<PendingWork[]> {
  const now = await store.now();
  const toWork = (key: string): PendingWork => ({ key, ...parseWorkKey(key) });
  // Whoever was given something is not given it again at once, so that what comes after it has its turn.
  if (store.reserve) {
    const ranges: KeyRange[] = [];
    for (let priority = HIGHEST_PRIORITY; priority >= LOWEST_PRIORITY; priority--) {
      for (const agent of agents) ranges.push(readyWork(agent, priority, now));
    }
    const reserved = await store.reserve(ranges, { limit, forMs: RESERVED_FOR });
    return reserved.map(({ key }) => toWork(key)).filter((work) => !isSkipped(work));
  }
  const found: PendingWork[] = [];
  // Priorities without work for an agent are skipped.
  const next = new Map<string, number | undefined>();
  for (const agent of agents) next.set(agent, await findPriority(store, agent, HIGHEST_PRIORITY));
  for (let priority = HIGHEST_PRIORITY; priority >= LOWEST_PRIORITY; priority--) {
    for (const agent of agents) {
      if (next.get(agent) !== priority) continue;
      for await (const { key } of scan(store, readyWork(agent, priority, now))) {
        const work = toWork(key);
        if (!isSkipped(work)) found.push(work);
        if (found.length >= limit) return found;
      }
      next.set(agent, priority > LOWEST_PRIORITY ? await findPriority(store, agent, priority - 1) : undefined);
    }
  }
  return found;
}

/** The highest priority, from this one down, at which an agent has work, even if that is not due yet. */
async function findPriority(store: Store, agent: string, from: number): Promise<number | undefined> {
  const [first] = await store.list(workUpToPriority(agent, from), { limit: 1 });
  return first && priorityOfWorkKey(first.key);
}

/** Records that are looked at together. */
const PAGE = 100;

/** The processes that run sessions, according to their records. */
export interface Owners {
  /** Those with valid leases, except the caller, by the ids of their leases. */
  readonly alive: ReadonlyMap<string, OwnerRecord>;
  /** Those that have died or whose leases have expired; and the caller. */
  readonly gone: readonly string[];
  /** In how many milliseconds the next lease ends unless it is renewed. */
  readonly nextEnd: number;
}

/** @param self the caller's own leases: work that it holds but does not run, after a failure of the store, is included too */
export async function findOwners({ store }: Context, self: string): Promise<Owners> {
  const now = await store.now();
  const alive = new Map<string, OwnerRecord>();
  const gone: string[] = [];
  let nextEnd = Number.POSITIVE_INFINITY;
  for await (const record of scan(store, ALL_OWNERS)) {
    const owner = record.key.slice(ownerKey("").length);
    const known = readOwner(record);
    if (owner !== self && known && isAlive(known, now)) {
      alive.set(owner, known);
      nextEnd = Math.min(nextEnd, known.until - now);
    } else gone.push(owner);
  }
  return { alive, gone, nextEnd };
}

/**
 * The work of these agents that was left by owners that are gone.
 *
 * @param isSkipped work to leave out, such as sessions that the caller runs
 * @returns at most `limit` results; if there are exactly as many, there may be more
 */
export async function findOrphans(
  { store }: Context,
  gone: Iterable<string>,
  agents: ReadonlyMap<string, unknown>,
  limit: number,
  isSkipped: (work: PendingWork) => boolean,
): Promise<Orphan[]> {
  const found: Orphan[] = [];
  let page: Omit<Orphan, "takeovers">[] = [];
  // What is left of agents that nobody here has, however much that is, must not hide the rest.
  const look = async (): Promise<void> => {
    const records = await store.get(page.map(({ session, branch }) => queueEntryKey(session, branch)));
    for (const [index, work] of page.entries()) {
      const record = records[index];
      // What is damaged is told by whoever goes on with it.
      const due = record && "value" in record ? decodeQueueEntry(record.value) : undefined;
      if (!due || agents.has(due.agent)) found.push({ ...work, takeovers: due?.lostOwners.length ?? 0 });
    }
    page = [];
  };
  for (const owner of gone) {
    for await (const { key } of scan(store, ownedBy(owner))) {
      const work = { key, owner, ...parseOwnedKey(key) };
      if (!isSkipped(work)) page.push(work);
      if (page.length >= PAGE) await look();
      if (found.length >= limit) return found.slice(0, limit);
    }
  }
  if (page.length > 0) await look();
  return found.slice(0, limit);
}

/**
 * Takes note that there is nothing to do where something was found: it was deleted meanwhile, or is over.
 *
 * @param over nothing is to be done at all, so that it need not be found elsewhere either
 */
export async function dropStaleEntry(
  { store }: Context,
  { key, session, branch }: PendingWork,
  over: boolean,
): Promise<void> {
  const [record] = await store.get([queueEntryKey(session, branch)]);
  if (record && !("value" in record)) return;
  const due = record && decodeQueueEntry(record.value);
  // It is found elsewhere, or not at all; or there is nothing to it.
  const stale = !due || queueIndexKey(session, branch, due) !== key;
  if (!stale && !over) return;
  const deletes = stale ? [key] : changeQueueEntry(session, branch, due, undefined).deletes;
  try {
    await store.commit({ checks: [{ key: queueEntryKey(session, branch), value: record?.value }], deletes });
  } catch (error) {
    if (!isSavepointError(error, "CONFLICT")) throw error;
  }
}
