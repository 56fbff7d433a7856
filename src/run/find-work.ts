/**
 * Finding what is to be done: what has come due, and what was left by processes that are gone. Neither looks at what is
 * under way or waits, however much of that there is.
 */
import { isSavepointError } from "../errors.js";
import type { Context } from "../model/context.js";
import { changeDue, decodeDue, HIGHEST_PRIORITY, LOWEST_PRIORITY, placeOf } from "../model/due.js";
import { ALL_OWNERS, dueKey, ownedBy, ownerKey, placeOfOwned, placeOfWork, workDue } from "../model/keys.js";
import { isAlive, readOwner } from "../model/run-status.js";
import { scan } from "../store/scan.js";
import type { KeyRange } from "../store/store.js";

/** Something that nobody does. */
export interface Work {
  readonly session: string;
  readonly branch: string;
  /** The record by which it was found. */
  readonly key: string;
}

/** Something that was left in the middle. */
export interface Orphan extends Work {
  /** From how many others it was taken over before, within the same step. */
  readonly takenOver: number;
}

/** While whoever was given it begins with it, others are given something else. */
const RESERVED_FOR = 5000;

/**
 * What of these agents has come due: the most urgent first.
 *
 * @param isSkipped what is left out: it must not stand in the way of what comes after it
 */
export async function findDue(
  { store }: Context,
  agents: readonly string[],
  limit: number,
  isSkipped: (work: Work) => boolean,
): Promise<Work[]> {
  const now = await store.now();
  const ranges: KeyRange[] = [];
  for (let priority = HIGHEST_PRIORITY; priority >= LOWEST_PRIORITY; priority--) {
    for (const agent of agents) ranges.push(workDue(agent, priority, now));
  }
  const toWork = ({ key }: { readonly key: string }): Work => ({ key, ...placeOfWork(key) });
  // Whoever was given something is not given it again at once, so that what comes after it has its turn.
  if (store.reserve) {
    const reserved = await store.reserve(ranges, { limit, forMs: RESERVED_FOR });
    return reserved.map(toWork).filter((work) => !isSkipped(work));
  }
  const found: Work[] = [];
  for (const range of ranges) {
    for await (const record of scan(store, range)) {
      const work = toWork(record);
      if (!isSkipped(work)) found.push(work);
      if (found.length >= limit) return found;
    }
  }
  return found;
}

/** Records that are looked at together. */
const PAGE = 100;

/**
 * What of these agents was left by processes that have died, or that have not been heard of for longer than their leases
 * last.
 *
 * @param self the caller's own leases: what it has and does not run, because the store failed it, is left as well
 * @param isSkipped what is left out, such as what it does run
 * @returns what was found, and in how many milliseconds the next lease ends unless it is renewed
 */
export async function findOrphans(
  { store }: Context,
  self: string,
  agents: ReadonlyMap<string, unknown>,
  limit: number,
  isSkipped: (work: Work) => boolean,
): Promise<{ orphans: Orphan[]; nextEnd: number }> {
  const now = await store.now();
  const found: Orphan[] = [];
  let nextEnd = Number.POSITIVE_INFINITY;
  let page: Work[] = [];
  // What is left of agents that nobody here has, however much that is, must not hide the rest.
  const look = async (): Promise<void> => {
    const records = await store.get(page.map(({ session, branch }) => dueKey(session, branch)));
    for (const [index, work] of page.entries()) {
      const record = records[index];
      // What is damaged is told by whoever goes on with it.
      const due = record && "value" in record ? decodeDue(record.value) : undefined;
      if (!due || agents.has(due.agent)) found.push({ ...work, takenOver: due?.lost.length ?? 0 });
    }
    page = [];
  };
  for await (const record of scan(store, ALL_OWNERS)) {
    const owner = record.key.slice(ownerKey("").length);
    const known = readOwner(record);
    if (owner !== self && known && isAlive(known, now)) {
      nextEnd = Math.min(nextEnd, known.until - now);
      continue;
    }
    for await (const { key } of scan(store, ownedBy(owner))) {
      const work = { key, ...placeOfOwned(key) };
      if (!isSkipped(work)) page.push(work);
      if (page.length >= PAGE) await look();
      if (found.length >= limit) return { orphans: found.slice(0, limit), nextEnd: 0 };
    }
  }
  if (page.length > 0) await look();
  return { orphans: found.slice(0, limit), nextEnd };
}

/**
 * Takes note that there is nothing to do where something was found: it was deleted meanwhile, or is over.
 *
 * @param over nothing is to be done at all, so that it need not be found elsewhere either
 */
export async function forgetWork({ store }: Context, { key, session, branch }: Work, over: boolean): Promise<void> {
  const [record] = await store.get([dueKey(session, branch)]);
  if (record && !("value" in record)) return;
  const due = record && decodeDue(record.value);
  // It is found elsewhere, or not at all; or there is nothing to it.
  const stale = !due || placeOf(session, branch, due) !== key;
  if (!stale && !over) return;
  const deletes = stale ? [key] : changeDue(session, branch, due, undefined).deletes;
  try {
    await store.commit({ checks: [{ key: dueKey(session, branch), value: record?.value }], deletes });
  } catch (error) {
    if (!isSavepointError(error, "CONFLICT")) throw error;
  }
}
