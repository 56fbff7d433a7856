/** Sessions that end the processes which work on them. */
import { ownerKey, type OwnerRecord, CLEAN_SHUTDOWN } from "../../records/index.js";
import { isAlive, readOwner } from "../status/index.js";
import type { SessionReader } from "../../sessions/index.js";
import { buildClaimEntry, readRunSnapshot } from "./claim.js";
import { releaseBranch } from "./release.js";

/** What is known of a session that was left. */
export interface CrashPolicyResult {
  /** How many processes have died over it, one after another and in the same step. */
  readonly crashes: number;
  /** Why it was put aside, where it was. */
  readonly quarantined: string | undefined;
}

/**
 * Puts a run aside that so many processes have died over. Those count that are gone and have not said goodbye: who was
 * only cut off for longer than its lease is there again, and who was stopped has taken its record away, or says that its
 * time is over.
 *
 * @param agents those that the caller has; what belongs to others is theirs to judge
 */
export async function applyCrashPolicy(
  reader: SessionReader,
  branch: string,
  self: string,
  agents: ReadonlyMap<string, unknown>,
  maxDeaths: number,
): Promise<CrashPolicyResult> {
  const view = await readRunSnapshot(reader, branch);
  const { run, owner, now, journal } = view;
  if (!run || !agents.has(run.agent) || (owner && isAlive(owner, now))) return { crashes: 0, quarantined: undefined };
  const { lostOwners } = buildClaimEntry(reader, view, run.agent, false, self);
  const owners = await reader.context.store.get(lostOwners.map(ownerKey));
  const deaths = owners.filter((record) => record && hasDied(readOwner(record), now)).length;
  if (deaths < maxDeaths) return { crashes: deaths, quarantined: undefined };
  const reason = `${deaths} processes in a row have died while they worked on the step that began with checkpoint #${journal?.boundary ?? 0}`;
  let parked: string | undefined;
  await releaseBranch(
    reader,
    branch,
    () => self,
    () => {
      parked = reason;
      return { status: "failed", reason };
    },
  );
  return { crashes: deaths, quarantined: parked };
}

function hasDied(owner: OwnerRecord | undefined, now: number): boolean {
  return owner?.until !== CLEAN_SHUTDOWN && !isAlive(owner, now);
}
