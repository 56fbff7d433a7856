/**
 * The sweep after a save. It removes checkpoints that have expired, that the retention policy in force does not keep, or that
 * exceed the session's limit on automatic checkpoints.
 *
 * A sweep reads all rows of the session, so sweeps are amortised over many saves: each sweep plans until when no further
 * checkpoint can become removable (see sweep-schedule.ts), and saves before that read no rows.
 *
 * The sweep runs after the commit of the save, so a failed sweep does not fail the save. The sweep emits `backgroundFailure`, and
 * the next save sweeps again.
 */
import { isSavepointError } from "../errors.js";
import { type BranchCursor, describeSession, type SessionReader } from "../sessions/index.js";
import { type CheckpointInfo, type CheckpointRow, earliestExpiryOf, type SessionRecord } from "../records/index.js";
import { parseRetentionOptions, type RetentionRules, type StoredPolicy } from "../policies/index.js";
import type { CheckpointSet } from "./checkpoint-set.js";
import { automaticBeyond, reasonsToKeep, withRewindNeeds } from "./keep-reasons.js";
import { removeCheckpoints } from "./removal.js";
import { needsSweep, planNextSweep, slackOf, type Sweep } from "./sweep-schedule.js";

/** The fields of a saved checkpoint that decide whether a sweep is necessary. */
export type SavedCheckpoint = Pick<CheckpointInfo, "branch" | "kind"> & Partial<Pick<CheckpointInfo, "expiresAt">>;

/** A policy whose rules could be read. Its value is "" if there is no policy. */
type EnforceablePolicy = StoredPolicy & { readonly rules: RetentionRules };

/** The number of attempts while other processes save. If all of them conflict, the next save sweeps again. */
const MAX_ATTEMPTS = 50;

/** The policy of a session without one. It removes only checkpoints whose own lifetime has ended. */
const NO_POLICY: StoredPolicy = { value: "", rules: parseRetentionOptions({ expired: true }) };

/**
 * Sweeps a session after a save. Resolves when the removal is committed. Reads no rows if no checkpoint can have become removable;
 * returns `undefined` if the session has no limits. Never rejects: a failure emits `backgroundFailure`.
 *
 * If checkpoints were removed, `cursor` is refreshed, because a removal may change the record of its branch.
 */
export function enforceRetention(
  reader: SessionReader,
  cursor: BranchCursor,
  saved: SavedCheckpoint,
): Promise<void> | undefined {
  return isUnlimited(reader, cursor, saved) ? undefined : sweepAfterSave(reader, cursor, saved);
}

/** Whether the cached records show that nothing limits the checkpoints of the session. */
function isUnlimited(
  { context, sessionId }: SessionReader,
  { session }: BranchCursor,
  { kind }: SavedCheckpoint,
): boolean {
  if (!context.policies.isFresh || !session || session.earliestExpiry !== undefined) return false;
  return (!session.policy || kind === "manual") && !context.policies.policyFor(sessionId, session.agent);
}

async function sweepAfterSave(reader: SessionReader, cursor: BranchCursor, saved: SavedCheckpoint): Promise<void> {
  try {
    const { policies } = reader.context;
    if (!policies.isFresh) await policies.refresh();
    const session = cursor.session ?? (await reader.session())?.record;
    if (!session) return;
    const now = reader.context.now();
    const policy = await findPolicyToEnforce(reader, session, saved, now);
    const maxAutomatic = await findMaxAutomatic(reader, session, saved, policy !== undefined);
    const removed = await sweep(reader, policy, maxAutomatic, now);
    if (removed.length > 0) await cursor.exclusive(() => cursor.refresh());
  } catch (error) {
    // The store was closed during the sweep. This is not a failure, because a later save sweeps again.
    if (isSavepointError(error, "CLOSED")) return;
    const message = `checkpoints of ${describeSession(reader.sessionId)} beyond its retention limits could not be removed`;
    reader.context.events.emit("backgroundFailure", { message, error });
  }
}

/**
 * Returns the policy to sweep a session by; `undefined` if no checkpoint can have become removable by the policy since the last
 * sweep, or if the rules of the policy cannot be read.
 */
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
  // The cached policy may be outdated, because another process may have changed it, or deleted it together with the
  // session that it was for. So the policy is read again before a checkpoint is removed by it.
  const policy = (cached && (await policies.readPolicyFor(sessionId, session.agent))) ?? NO_POLICY;
  if (cached && policy.value !== value) policies.invalidate();
  return policy.rules && { value: policy.value, rules: policy.rules };
}

/**
 * Returns the session's limit on automatic checkpoints; `undefined` if the session has no limit or cannot exceed it now.
 *
 * Only the save of a manual checkpoint adds no automatic one. A checkpoint of kind `recovery` does, because a rewind also saves
 * the state before it.
 *
 * @param isSweeping whether the policy requires a sweep anyway. If it does, the number of checkpoints is not read first
 */
async function findMaxAutomatic(
  reader: SessionReader,
  { number, policy, nextSeq }: SessionRecord,
  { kind }: SavedCheckpoint,
  isSweeping: boolean,
): Promise<number | undefined> {
  if (!policy || kind === "manual") return undefined;
  const { max } = policy;
  if (isSweeping) return max;
  const schedule = reader.context.sweeps.getAutomatic(reader.sessionId);
  const isPlanned = schedule?.number === number && schedule.max === max;
  if (isPlanned && nextSeq <= schedule.safeUntilSeq) return undefined;
  return ((await reader.session())?.record.checkpoints ?? 0) <= max ? undefined : max;
}

/**
 * Removes the checkpoints beyond the limits in one commit, and returns them. If a policy is enforced, also records when to sweep
 * by it again. Without limits, reads nothing and returns an empty list.
 *
 * @param maxAutomatic the number of automatic checkpoints that the session may have
 */
async function sweep(
  reader: SessionReader,
  policy: EnforceablePolicy | undefined,
  maxAutomatic: number | undefined,
  now: number,
): Promise<readonly CheckpointRow[]> {
  if (!policy && maxAutomatic === undefined) return [];
  let done: Sweep | undefined;
  let last: CheckpointSet | undefined;
  const rows = await removeCheckpoints(
    reader,
    (checkpoints) => {
      last = checkpoints;
      const byPolicy = policy && sweepByPolicy(checkpoints, policy, now);
      done = byPolicy;
      const removed = byPolicy ? checkpoints.rows.filter(({ seq }) => !byPolicy.reasons.has(seq)) : [];
      if (maxAutomatic === undefined) return { rows: removed };
      const rest = byPolicy ? { ...checkpoints, rows: byPolicy.kept } : checkpoints;
      return { rows: [...removed, ...automaticBeyond(rest, maxAutomatic)] };
    },
    MAX_ATTEMPTS,
  );
  const { sweeps } = reader.context;
  if (done) sweeps.set(reader.sessionId, planNextSweep(done));
  if (last && maxAutomatic !== undefined) {
    const { number, nextSeq } = last.session.record;
    const safeUntilSeq = nextSeq + slackOf(last.rows.length - rows.length);
    sweeps.setAutomatic(reader.sessionId, { number, max: maxAutomatic, safeUntilSeq });
  }
  return rows;
}

/** Decides which checkpoints a policy keeps. The result contains the session's record as it is after the removal of the others. */
function sweepByPolicy(checkpoints: CheckpointSet, { value, rules }: EnforceablePolicy, now: number): Sweep {
  const reasons = reasonsToKeep(withRewindNeeds(checkpoints), rules, now);
  const kept = checkpoints.rows.filter(({ seq }) => reasons.has(seq));
  const { record } = checkpoints.session;
  const isRemoving = kept.length < checkpoints.rows.length;
  const session = isRemoving ? { ...record, earliestExpiry: earliestExpiryOf(kept) } : record;
  return { checkpoints, reasons, kept, session, rules, policy: value, now };
}
