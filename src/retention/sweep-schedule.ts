/**
 * Decides when to sweep a session. A sweep reads all rows of the session. {@link planNextSweep} then computes until which time and
 * until which seq no further checkpoint can become removable. After each save, {@link needsSweep} decides from the session's
 * record alone whether one of these bounds has been passed. Pure functions.
 */
import {
  effectiveExpiry,
  groupByBranch,
  type KeepReason,
  type RetentionRules,
  type SweepSchedule,
} from "../policies/index.js";
import type { CheckpointRow, SessionRecord } from "../records/index.js";
import { type CheckpointSet, isLabelled } from "./checkpoint-set.js";
import { statesBeforeRewinds } from "./keep-reasons.js";

/** A sweep by a policy: the checkpoints that it read, and its decisions about them. */
export interface Sweep {
  /** The checkpoints before the sweep. */
  readonly checkpoints: CheckpointSet;
  /** The reasons to keep each checkpoint, by seq. A checkpoint without a reason is removed. */
  readonly reasons: ReadonlyMap<number, readonly KeepReason[]>;
  readonly kept: readonly CheckpointRow[];
  /** The session's record after the sweep. */
  readonly session: SessionRecord;
  readonly rules: RetentionRules;
  /** The policy as it is stored. */
  readonly policy: string;
  readonly now: number;
}

/** Sessions with up to this many rows are swept as soon as a checkpoint may be removable; larger ones a little later. */
const SMALL_SESSION_ROWS = 64;
/**
 * Reasons to keep a checkpoint that another process can revoke without a save, for example by removing a pin. A session whose
 * checkpoints depend on such reasons is swept again by the first save after a minute.
 */
const REVOCABLE: ReadonlySet<KeepReason> = new Set<KeepReason>(["pinned", "labelled", "needed"]);
/** The time after which revocable reasons are checked again, in milliseconds. */
const RECHECK_AFTER = 60_000;

/**
 * Returns whether a save may have made a checkpoint of the session removable, so that a sweep is necessary.
 *
 * @param branch the branch of the save
 * @param policy the policy as it is stored
 * @param schedule the plan of the last sweep; `undefined` if this process has not swept the session yet
 */
export function needsSweep(
  session: SessionRecord,
  branch: string,
  rules: RetentionRules,
  policy: string,
  schedule: SweepSchedule | undefined,
  now: number,
): boolean {
  const expired = session.earliestExpiry !== undefined && now > session.earliestExpiry;
  if (!schedule || schedule.number !== session.number || schedule.policy !== policy) {
    const { last, unexpired, ttl } = rules;
    if (expired) return true;
    if (unexpired) return ttl !== undefined && session.checkpoints > 1;
    return ttl !== undefined || session.checkpoints > Math.max(last, 1);
  }
  if (session.nextSeq > schedule.safeUntilSeq || schedule.prunableHeads.has(branch)) return true;
  const expiresNewly = expired && session.earliestExpiry !== schedule.earliestExpiry;
  if (now <= schedule.safeUntilTime && !expiresNewly) return false;
  // Sweeps of a large session read at most one row per millisecond on average, so checkpoints that expire one after another are
  // removed in groups.
  return schedule.rows <= SMALL_SESSION_ROWS || Math.abs(now - schedule.sweptAt) >= schedule.rows;
}

/**
 * Returns how many saves after the first one that makes a checkpoint removable may pass before the sweep. So a sweep of a large
 * session, which reads all rows, costs each save a constant number of rows.
 *
 * @param rows the number of rows that the last sweep has left
 */
export function slackOf(rows: number): number {
  return rows > SMALL_SESSION_ROWS ? Math.floor(rows / 8) : 0;
}

/** Computes until when the session need not be swept again. */
export function planNextSweep(sweep: Sweep): SweepSchedule {
  const { checkpoints, session, policy, now } = sweep;
  return {
    number: session.number,
    policy,
    sweptAt: now,
    rows: checkpoints.rows.length,
    safeUntilSeq: session.nextSeq + safeSaves(sweep),
    safeUntilTime: safeUntilTime(sweep),
    earliestExpiry: session.earliestExpiry,
    prunableHeads: findPrunableHeads(sweep),
  };
}

/** Returns the number of saves, on any branch, after which still no sweep is necessary. */
function safeSaves({ checkpoints, kept, reasons, rules }: Sweep): number {
  const isCalendar = rules.hourly > 0 || rules.daily > 0 || rules.weekly > 0;
  // A hidden head already has its seq. It can get a row without a new seq, so each hidden head counts as one save.
  const hidden = checkpoints.branches.filter(({ record }) => record.hidden).length;
  return Math.max(0, (isCalendar ? 0 : savesWithinLast(kept, reasons, rules)) + slackOf(kept.length) - hidden);
}

/**
 * Returns the number of saves, on any branch, after which all checkpoints that are kept only because they are among the last
 * ones of their branch are still among them.
 */
function savesWithinLast(
  kept: readonly CheckpointRow[],
  reasons: Sweep["reasons"],
  { last, within, unexpired }: RetentionRules,
): number {
  if (unexpired) return Number.POSITIVE_INFINITY;
  // At least 1, because the head is always kept.
  const recent = Math.max(last, 1);
  /** Whether a checkpoint is kept for its age or kind, even if it is no longer among the last ones. */
  const isLasting = (why: readonly KeepReason[] = []): boolean => why.includes("within") || why.includes("kind");
  let saves = within ? Number.POSITIVE_INFINITY : recent;
  for (const ofBranch of groupByBranch(kept)) {
    const newest = last > 0 ? ofBranch.filter(({ seq }) => reasons.get(seq)?.includes("last")) : ofBranch.slice(-1);
    const first = newest.findIndex(({ seq }) => !isLasting(reasons.get(seq)));
    // If all of the newest checkpoints are kept for their age or kind, they stay when newer ones replace them among the last. With
    // `keepWithin`, the same holds for the checkpoints that are saved next.
    if (first < 0) saves = Math.min(saves, within ? saves : recent);
    else saves = Math.min(saves, recent - newest.length + first);
  }
  return saves;
}

/** Returns the time until which no checkpoint, existing or saved from now on, becomes removable because of its age. */
function safeUntilTime({ kept, reasons, session, rules, now }: Sweep): number {
  const { ttl, within } = rules;
  const recheck = now + RECHECK_AFTER;
  // The session's record contains only the earliest expiry. If the checkpoint with that expiry has expired and is kept, the record
  // does not show when checkpoints that other processes save will expire, so the session is checked again soon.
  const { earliestExpiry = Number.POSITIVE_INFINITY } = session;
  const times = [
    now + Math.min(ttl ?? Number.POSITIVE_INFINITY, within ?? Number.POSITIVE_INFINITY) - 1,
    now > earliestExpiry ? recheck : earliestExpiry,
  ];
  for (const row of kept) {
    const why = reasons.get(row.seq) ?? [];
    if (why.every((reason) => REVOCABLE.has(reason))) times.push(recheck);
    if (why.includes("kind")) continue;
    // The expiry that applies if the checkpoint loses its label. It may already have passed.
    const expiry = effectiveExpiry(row, rules, false) ?? Number.POSITIVE_INFINITY;
    if (now <= expiry) times.push(expiry);
    else if (why.some((reason) => REVOCABLE.has(reason))) times.push(recheck);
    if (why.includes("within")) times.push(row.createdAt + (within ?? 0) - 1);
  }
  return times.reduce((earliest, time) => Math.min(earliest, time));
}

/**
 * Returns the names of the branches whose next save makes a checkpoint removable: the current head, if it has expired, or the
 * state before the rewind that created the current head.
 */
function findPrunableHeads({ checkpoints, kept, reasons, rules, now }: Sweep): Set<string> {
  const seqs = statesBeforeRewinds(checkpoints).map(({ seq }) => seq + 1);
  for (const row of kept) {
    const why = reasons.get(row.seq) ?? [];
    if (why.includes("kind") || why.includes("pinned") || why.includes("needed")) continue;
    const expiry = effectiveExpiry(row, rules, isLabelled(checkpoints, row));
    if (expiry !== undefined && now > expiry) seqs.push(row.seq);
  }
  return new Set(seqs.flatMap((seq) => (checkpoints.heads.get(seq) ?? []).map(({ name }) => name)));
}
