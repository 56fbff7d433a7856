/**
 * The sweep after a save: removes the checkpoints that the retention policy in force, their own lifetimes or the limit on
 * automatic checkpoints no longer keep.
 *
 * A sweep reads all rows of the session, so it is amortised: each one works out how long nothing can have to be removed
 * (see sweep-schedule.ts), and saves within that time cost no read. The save has succeeded before: a failing sweep
 * emits `backgroundFailure`, and the next save tries again.
 */
import { isSavepointError } from "../errors.js";
import { type BranchCursor, describeSession, type SessionReader } from "../sessions/index.js";
import { type CheckpointKind, type CheckpointRow, earliestExpiryOf, type SessionRecord } from "../records/index.js";
import { parseRetentionOptions, type RetentionRules, type StoredPolicy } from "../policies/index.js";
import type { CheckpointSet } from "./checkpoint-set.js";
import { automaticBeyond, reasonsToKeep, withRewindNeeds } from "./keep-reasons.js";
import { removeCheckpoints } from "./removal.js";
import { needsSweep, planNextSweep, type Sweep } from "./sweep-schedule.js";

/** The checkpoint that was saved. */
export interface SavedCheckpoint {
  readonly branch: string;
  readonly kind: CheckpointKind;
  readonly expiresAt?: number | undefined;
}

/** What a sweep enforces; a missing limit is not to be enforced now. */
interface Limits {
  readonly policy: EnforceablePolicy | undefined;
  /** How many automatic checkpoints the session may have. */
  readonly maxAutomatic: number | undefined;
}

/** A policy that could be read. */
interface EnforceablePolicy {
  readonly value: string;
  readonly rules: RetentionRules;
}

/** Attempts while other processes save; after that the next save sweeps. */
const MAX_ATTEMPTS = 50;

/** In force where there is no policy: lifetimes of single checkpoints end all the same. */
const NO_POLICY: StoredPolicy = { value: "", rules: parseRetentionOptions({ expired: true }) };

/** Removes checkpoints beyond the limits of a session, now that one was saved. Reads nothing if none can be. */
export async function enforceRetention(
  reader: SessionReader,
  cursor: BranchCursor,
  saved: SavedCheckpoint,
): Promise<void> {
  try {
    const { policies } = reader.context;
    if (!policies.isFresh) await policies.refresh();
    const session = cursor.session ?? (await reader.session())?.record;
    if (!session) return;
    const now = reader.context.now();
    const policy = await findPolicyToEnforce(reader, session, saved, now);
    const limits = { policy, maxAutomatic: await findMaxAutomatic(reader, session, saved, policy !== undefined) };
    const removed = await sweep(reader, limits, now);
    if (removed.length > 0) await cursor.exclusive(() => cursor.refresh());
  } catch (error) {
    // The store is being closed: not a failure.
    if (isSavepointError(error, "CLOSED")) return;
    const message = `checkpoints of ${describeSession(reader.sessionId)} beyond its retention limits could not be removed`;
    reader.context.events.emit("backgroundFailure", { message, error });
  }
}

/** The policy of a session, if anything can have to be removed by it now. */
async function findPolicyToEnforce(
  { context, sessionId }: SessionReader,
  session: SessionRecord,
  saved: SavedCheckpoint,
  now: number,
): Promise<EnforceablePolicy | undefined> {
  const { policies, sweeps } = context;
  const cached = policies.policyFor(sessionId, session.agent);
  if (!cached && session.earliestExpiry === undefined) return undefined;
  const { rules, value } = cached ?? NO_POLICY;
  sweeps.recordExpiry(sessionId, saved.expiresAt);
  const schedule = sweeps.get(sessionId);
  if (!rules || !needsSweep(session, saved.branch, rules, value, schedule, now)) return undefined;
  // Another process may have changed the policy since, or deleted the session that it was for.
  const policy = (cached && (await policies.readPolicyFor(sessionId, session.agent))) ?? NO_POLICY;
  if (cached && policy.value !== value) policies.invalidate();
  return policy.rules && { value: policy.value, rules: policy.rules };
}

/**
 * The limit on automatic checkpoints of a session, if there may be more of them now. A rewind saves two checkpoints, one of
 * them automatic, so only a manual checkpoint adds none.
 *
 * @param isSweeping are all rows read anyway? Then their number is not read before
 */
async function findMaxAutomatic(
  reader: SessionReader,
  { policy }: SessionRecord,
  { kind }: SavedCheckpoint,
  isSweeping: boolean,
): Promise<number | undefined> {
  if (!policy || kind === "manual") return undefined;
  if (!isSweeping && ((await reader.session())?.record.checkpoints ?? 0) <= policy.max) return undefined;
  return policy.max;
}

/** Removes what the limits do not keep, in one commit, and records when to sweep by the policy again. */
async function sweep(
  reader: SessionReader,
  { policy, maxAutomatic }: Limits,
  now: number,
): Promise<readonly CheckpointRow[]> {
  if (!policy && maxAutomatic === undefined) return [];
  let done: Sweep | undefined;
  const rows = await removeCheckpoints(
    reader,
    (checkpoints) => {
      const byPolicy = policy && sweepByPolicy(checkpoints, policy, now);
      done = byPolicy;
      const removed = byPolicy ? checkpoints.rows.filter(({ seq }) => !byPolicy.reasons.has(seq)) : [];
      if (maxAutomatic === undefined) return { rows: removed };
      const rest = byPolicy ? { ...checkpoints, rows: byPolicy.kept } : checkpoints;
      return { rows: [...removed, ...automaticBeyond(rest, maxAutomatic)] };
    },
    MAX_ATTEMPTS,
  );
  if (done) reader.context.sweeps.set(reader.sessionId, planNextSweep(done));
  return rows;
}

function sweepByPolicy(checkpoints: CheckpointSet, { value, rules }: EnforceablePolicy, now: number): Sweep {
  const reasons = reasonsToKeep(withRewindNeeds(checkpoints), rules, now);
  const kept = checkpoints.rows.filter(({ seq }) => reasons.has(seq));
  const { record } = checkpoints.session;
  const isRemoving = kept.length < checkpoints.rows.length;
  const session = isRemoving ? { ...record, earliestExpiry: earliestExpiryOf(kept) } : record;
  return { checkpoints, reasons, kept, session, rules, policy: value, now };
}
