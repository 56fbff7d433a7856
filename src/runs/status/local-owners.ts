/**
 * The lease owners in this process, and the branches that each of them runs.
 *
 * A run that could not release its branch, because the store had failed, leaves the branch held until the lease expires.
 * Other processes have to wait for that. This process knows that the run has ended, so it does not wait.
 */

/** The branches that an owner runs. */
export interface OwnerRuns {
  has(session: string, branch: string): boolean;
}

const OWNERS = new Map<string, OwnerRuns>();

/** Adds an owner, before its first claim. A branch that it is about to claim counts as run by it. */
export function addLocalOwner(owner: string, runs: OwnerRuns): void {
  OWNERS.set(owner, runs);
}

/** Removes an owner that no longer holds a branch in the store. */
export function removeLocalOwner(owner: string): void {
  OWNERS.delete(owner);
}

/** Returns whether an owner in this process no longer runs a branch that it still holds in the store. */
export function hasEndedHere(owner: string, session: string, branch: string): boolean {
  const runs = OWNERS.get(owner);
  return runs !== undefined && !runs.has(session, branch);
}
