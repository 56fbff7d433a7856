/** The crash policy: a run that crashes one process after another is quarantined. */
import { CLEAN_SHUTDOWN, ownerKey, type OwnerRecord } from "../../records/index.js";
import { isAlive, readOwner } from "../status/index.js";
import type { SessionReader } from "../../sessions/index.js";
import { findLostOwners } from "./claim.js";
import { releaseBranch } from "./release.js";
import { readRunSnapshot } from "./run-snapshot.js";

export interface CrashPolicyResult {
  /** The number of processes that have crashed one after another in the current step of the run. */
  readonly crashes: number;
  /** The reason of the quarantine, if the run was quarantined by this call. */
  readonly quarantined: string | undefined;
}

/**
 * Counts the processes that a run has crashed, and quarantines it (status `failed`) when there are too many.
 *
 * An owner counts if its lease has ended without a clean shutdown. A process that was only cut off for longer than its lease
 * is alive again and does not count. A clean shutdown with unreleased branches does not count either.
 *
 * @param self the owner id of the caller
 * @param agents the agents of the caller; runs of other agents are left to their workers
 * @param maxCrashes the number of crashes at which a run is quarantined
 */
export async function applyCrashPolicy(
  reader: SessionReader,
  branch: string,
  self: string,
  agents: ReadonlyMap<string, unknown>,
  maxCrashes: number,
): Promise<CrashPolicyResult> {
  const snapshot = await readRunSnapshot(reader, branch);
  const { run, owner, now, journal } = snapshot;
  if (!run || !agents.has(run.agent) || (owner && isAlive(owner, now))) return { crashes: 0, quarantined: undefined };
  const { lostOwners } = findLostOwners(reader.sessionId, snapshot, self);
  const owners = await reader.context.store.get(lostOwners.map(ownerKey));
  const crashes = owners.filter((record) => record && hasCrashed(readOwner(record), now)).length;
  if (crashes < maxCrashes) return { crashes, quarantined: undefined };
  const reason = `${crashes} processes in a row have crashed in the step that started at checkpoint #${journal?.boundary ?? 0}`;
  const released = await releaseBranch(reader, branch, {
    self: () => self,
    change: { status: "failed", reason, quarantined: true },
  });
  return { crashes, quarantined: released && released.cancelled === undefined ? reason : undefined };
}

function hasCrashed(owner: OwnerRecord | undefined, now: number): boolean {
  return owner?.until !== CLEAN_SHUTDOWN && !isAlive(owner, now);
}
