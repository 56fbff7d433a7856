/**
 * Decides which abandoned runs a worker starts. A run whose processes have crashed repeatedly is suspected of causing that. But
 * another run in the same process may have caused the crashes, so a worker runs at most one suspect at a time: if the worker
 * crashes, no other suspect gets the blame, and only the run that causes the crashes reaches the quarantine.
 */
import type { Orphan } from "./find-work.js";

/** This many crashes make a run a suspect. */
const SUSPICIOUS_CRASHES = 2;

/** The number of crashes that make a run a suspect: at least one less than the number that quarantines it. */
export function suspicionThreshold(maxCrashes: number): number {
  return Math.max(1, Math.min(SUSPICIOUS_CRASHES, maxCrashes - 1));
}

/** An abandoned run, and the number of processes that it has crashed; `undefined` if it must not be started. */
export interface OrphanCandidate {
  readonly orphan: Orphan;
  readonly crashes: number | undefined;
}

/**
 * Chooses the runs to start, in their order.
 *
 * @param capacity the number of runs that the worker can start
 * @param threshold see {@link suspicionThreshold}
 * @param hasSuspect whether the worker already runs a suspect
 * @returns the chosen runs, and the one among them that is a suspect
 */
export function chooseOrphans(
  candidates: readonly OrphanCandidate[],
  capacity: number,
  threshold: number,
  hasSuspect: boolean,
): { readonly chosen: readonly Orphan[]; readonly suspect: Orphan | undefined } {
  const chosen: Orphan[] = [];
  let suspect: Orphan | undefined;
  for (const { orphan, crashes } of candidates) {
    if (crashes === undefined || chosen.length >= capacity) continue;
    const isSuspect = crashes >= threshold;
    if (isSuspect && (hasSuspect || suspect)) continue;
    if (isSuspect) suspect = orphan;
    chosen.push(orphan);
  }
  return { chosen, suspect };
}
