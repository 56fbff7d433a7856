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

/** While whoever was given it begins with it, others are given something else. */
const RESERVED_FOR = 5000;

/**
 * What of these agents has come due: the most urgent first.
 *
 * @param isWanted tells what the caller would take on
 */
export async function findDue(
  { store }: Context,
  agents: readonly string[],
  limit: number,
  isWanted: (work: Work) => boolean,
): Promise<Work[]> {
  const now = await store.now();
  const ranges: KeyRange[] = [];
  for (let priority = HIGHEST_PRIORITY; priority >= LOWEST_PRIORITY; priority--) {
    for (const agent of agents) ranges.push(workDue(agent, priority, now));
  }
  const toWork = ({ key }: { readonly key: string }): Work => ({ key, ...placeOfWork(key) });
  // What is not wanted is reserved as well: the next time something else comes.
  if (store.reserve) return (await store.reserve(ranges, { limit, forMs: RESERVED_FOR })).map(toWork).filter(isWanted);
  const found: Work[] = [];
  for (const range of ranges) {
    for await (const record of scan(store, range)) {
      const work = toWork(record);
      if (isWanted(work)) found.push(work);
      if (found.length >= limit) return found;
    }
  }
  return found;
}

/**
 * What was left by processes that have died, or that have not been heard of for longer than their leases last.
 *
 * @param self the caller's own leases: what it has and does not run, because the store failed it, is left as well
 * @param isRunning tells what it does run
 */
export async function findOrphans(
  { store }: Context,
  self: string,
  isRunning: (work: Work) => boolean,
  limit: number,
): Promise<Work[]> {
  const now = await store.now();
  const found: Work[] = [];
  for await (const record of scan(store, ALL_OWNERS)) {
    const owner = record.key.slice(ownerKey("").length);
    if (owner !== self && isAlive(readOwner(record), now)) continue;
    for await (const { key } of scan(store, ownedBy(owner))) {
      const work = { key, ...placeOfOwned(key) };
      if (owner !== self || !isRunning(work)) found.push(work);
      if (found.length >= limit) return found;
    }
  }
  return found;
}

/** Takes note that there is nothing to do where something was found: it was deleted meanwhile, or is over. */
export async function forgetWork({ store }: Context, { key, session, branch }: Work): Promise<void> {
  const [record] = await store.get([dueKey(session, branch)]);
  if (record && !("value" in record)) return;
  const due = record && decodeDue(record.value);
  // It is found elsewhere, or not at all; or there is nothing to it.
  const stale = !due || placeOf(session, branch, due) !== key;
  const deletes = stale ? [key] : changeDue(session, branch, due, undefined).deletes;
  try {
    await store.commit({ checks: [{ key: dueKey(session, branch), value: record?.value }], deletes });
  } catch (error) {
    if (!isSavepointError(error, "CONFLICT")) throw error;
  }
}
