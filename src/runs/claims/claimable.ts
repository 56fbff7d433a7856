/** Decides whether a process may claim a branch, and so whether an expired lease may be taken over. */
import { alreadyRunning, type CommitParts, type SessionReader } from "../../sessions/index.js";
import { isCertainlyDead } from "../../util/index.js";
import { hasEndedHere, isAlive } from "../status/index.js";
import type { RunSnapshot } from "./run-snapshot.js";

/**
 * Decides whether a branch may be claimed, which includes taking over an expired lease. Returns the checks of the claiming commit.
 *
 * A branch may be claimed if it is free, if its owner has died, if the lease of its owner has expired, or if its owner belongs to
 * this process and no longer runs the branch. Throws `ALREADY_RUNNING` otherwise.
 *
 * @param self the owner id of the caller, which may claim a branch that it holds but does not run
 */
export function checkClaimable(
  reader: SessionReader,
  branch: string,
  { heads, run, owner, now, checks }: RunSnapshot,
  self: string | undefined,
): CommitParts {
  if (!heads.branch?.record.held || !run || run.owner === self) return { checks };
  if (hasEndedHere(run.owner, reader.sessionId, branch)) return { checks };
  if (owner && isAlive(owner, now)) throw alreadyRunning(reader.sessionId, branch, owner);
  // If the lease has expired, the store's clock confirms this inside the commit. The death of a process needs no clock.
  const hasExpired = owner && !isCertainlyDead(owner.process);
  return { checks, ...(hasExpired && { notBefore: owner.until }) };
}
