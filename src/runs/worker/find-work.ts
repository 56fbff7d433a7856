/**
 * Searches for work: scheduled work that is ready, and runs that dead processes have left. The cost depends on the work found,
 * not on the number of runs that are in progress or waiting.
 */
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
import { compareKeys, type KeyRange, scan, type Store } from "../../store/index.js";
import { partitionPoint, unlessConflict } from "../../util/index.js";

/** A branch whose work no process runs. */
export interface PendingWork {
  readonly session: string;
  readonly branch: string;
  /** The key of the index record by which it was found. */
  readonly key: string;
}

/** A run that its process has left unfinished. */
export interface Orphan extends PendingWork {
  /** The owner that still holds its branch. */
  readonly owner: string;
  /** How many owners have lost it before, in the current step. */
  readonly takeovers: number;
}

/** How long work that was found is reserved for this worker, in milliseconds. */
const RESERVED_FOR = 5000;

/**
 * Finds scheduled work of these agents that is ready, by priority and time.
 *
 * @param isSkipped returns whether to leave out a result; the limit applies to the others
 */
export async function findScheduledWork(
  { store }: Context,
  agents: readonly string[],
  limit: number,
  isSkipped: (work: PendingWork) => boolean,
): Promise<PendingWork[]> {
  const now = await store.now();
  const toWork = (key: string): PendingWork => ({ key, ...parseWorkKey(key) });
  // Reserved work is not found again for a while, so the work after it gets its turn.
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

/** The highest priority, from this one down, at which an agent has work, even if that is not ready yet. */
async function findPriority(store: Store, agent: string, from: number): Promise<number | undefined> {
  const [first] = await store.list(workUpToPriority(agent, from), { limit: 1 });
  return first && priorityOfWorkKey(first.key);
}

/** How many queue entries are read together. */
const PAGE = 100;

/** The owners of leases, according to their records. */
export interface Owners {
  /** Owners with valid leases, except the caller. */
  readonly alive: ReadonlyMap<string, OwnerRecord>;
  /** Owners that have died or whose leases have expired; and the caller. */
  readonly gone: readonly string[];
  /** The time until the next lease expires unless it is renewed, in milliseconds. */
  readonly nextEnd: number;
}

/**
 * Lists all owners.
 *
 * @param self the owner id of the caller. It is one of `gone`, because it may hold work that it does not run after a failure of
 *   the store.
 */
export async function findOwners({ store }: Context, self: string): Promise<Owners> {
  const now = await store.now();
  const alive = new Map<string, OwnerRecord>();
  const gone: string[] = [];
  let nextEnd = Number.POSITIVE_INFINITY;
  for await (const record of scan(store, ALL_OWNERS)) {
    const owner = record.key.slice(ownerKey("").length);
    const lease = readOwner(record);
    if (owner !== self && lease && isAlive(lease, now)) {
      alive.set(owner, lease);
      nextEnd = Math.min(nextEnd, lease.until - now);
    } else gone.push(owner);
  }
  return { alive, gone, nextEnd };
}

/**
 * Finds the work of these agents that is held by owners that are gone.
 *
 * @param isSkipped work to leave out, such as sessions that the caller runs
 * @returns at most `limit` results; if there are exactly as many, there may be more
 */
export async function findOrphans(
  { store }: Pick<Context, "store">,
  gone: Iterable<string>,
  agents: ReadonlyMap<string, unknown>,
  limit: number,
  isSkipped: (work: PendingWork) => boolean,
): Promise<Orphan[]> {
  const found: Orphan[] = [];
  let page: Omit<Orphan, "takeovers">[] = [];
  // Work of other agents is filtered out page by page, so that it does not fill the limit.
  const readPage = async (): Promise<void> => {
    const records = await store.get(page.map(({ session, branch }) => queueEntryKey(session, branch)));
    for (const [index, work] of page.entries()) {
      const record = records[index];
      // A damaged entry is reported when its work is started.
      const entry = record && "value" in record ? decodeQueueEntry(record.value) : undefined;
      if (!entry || agents.has(entry.agent)) found.push({ ...work, takeovers: entry?.lostOwners.length ?? 0 });
    }
    page = [];
  };
  for await (const { key, owner } of scanOwned(store, gone)) {
    const work = { key, owner, ...parseOwnedKey(key) };
    if (!isSkipped(work)) page.push(work);
    if (page.length >= PAGE) await readPage();
    if (found.length >= limit) return found.slice(0, limit);
  }
  if (page.length > 0) await readPage();
  return found.slice(0, limit);
}

/**
 * Iterates over the index keys of these owners. After an owner without work, the next key of any owner shows which other owners
 * have no work either. This matters after a restart of many workers: each new worker finds many dead owners that hold no branch.
 */
async function* scanOwned(store: Store, owners: Iterable<string>): AsyncGenerator<{ key: string; owner: string }> {
  const ranges = [...owners].map((owner) => ({ owner, range: ownedBy(owner) }));
  ranges.sort((a, b) => compareKeys(a.range.from, b.range.from));
  const end = ranges.at(-1)?.range.to ?? "";
  for (let index = 0; index < ranges.length;) {
    const { owner, range } = ranges[index++] as (typeof ranges)[number];
    let hasWork = false;
    for await (const { key } of scan(store, range)) {
      hasWork = true;
      yield { key, owner };
    }
    if (hasWork || index === ranges.length) continue;
    const [next] = await store.list({ from: range.to, to: end }, { limit: 1 });
    if (!next) return;
    index = partitionPoint(ranges, (each) => compareKeys(each.range.to, next.key) <= 0);
  }
}

/**
 * Deletes the index record by which work was found, if it is stale: the work was deleted, or is indexed elsewhere.
 *
 * @param isDone whether there is nothing to do at all, so that the queue entry is deleted too
 */
export async function dropStaleEntry(
  { store }: Context,
  { key, session, branch }: PendingWork,
  isDone: boolean,
): Promise<void> {
  const [record] = await store.get([queueEntryKey(session, branch)]);
  if (record && !("value" in record)) return;
  const entry = record && decodeQueueEntry(record.value);
  const isStale = !entry || queueIndexKey(session, branch, entry) !== key;
  if (!isStale && !isDone) return;
  const deletes = isStale ? [key] : changeQueueEntry(session, branch, entry, undefined).deletes;
  const checks = [{ key: queueEntryKey(session, branch), value: record?.value }];
  await unlessConflict(store.commit({ checks, deletes }));
}
