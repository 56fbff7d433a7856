/**
 * The owners of leases in this process, and what each of them runs.
 *
 * A run that could not release its branch, because the store had failed, leaves the branch held until the lease expires.
 * Other processes have to wait for that. This process knows that the run has ended, so it does not wait.
 */

/** What an owner runs. */
export interface OwnerRuns {
  has(session: string, branch: string): boolean;
}

const OWNERS = new Map<string, OwnerRuns>();

/** Adds an owner, before its first claim. A branch that it is about to claim counts as run by it. */
export function addLocalOwner(owner: string, runs: OwnerRuns): void {
  OWNERS.set(owner, runs);
}

/** Removes an owner that holds nothing in the store any more. */
export function removeLocalOwner(owner: string): void {
  OWNERS.delete(owner);
}

/** Is this an owner in this process that no longer runs the branch, although it still holds it in the store? */
export function hasEndedHere(owner: string, session: string, branch: string): boolean {
  const runs = OWNERS.get(owner);
  return runs !== undefined && !runs.has(session, branch);
}
