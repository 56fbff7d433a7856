/**
 * When a session has to be swept. A sweep reads all rows of the session; {@link planNextSweep} works out how long nothing
 * can have to be removed, and {@link needsSweep} decides after a save, from the session's record alone, whether that time
 * has passed. Pure functions.
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

/** A sweep by a policy: what was read, and what was decided. */
export interface Sweep {
  /** The checkpoints before the sweep. */
  readonly checkpoints: CheckpointSet;
  /** Why checkpoints are kept, by seq. Those without a reason are removed. */
  readonly reasons: ReadonlyMap<number, readonly KeepReason[]>;
  readonly kept: readonly CheckpointRow[];
  /** The session's record after the sweep. */
  readonly session: SessionRecord;
  readonly rules: RetentionRules;
  /** The policy as it is stored. */
  readonly policy: string;
  readonly now: number;
}

/** Sessions up to this size are swept as soon as anything can have to be removed; larger ones a little later. */
const SMALL_SESSION_ROWS = 64;
/** Reasons that another process can take away without a save; whether it has is checked once a minute. */
const REVOCABLE: ReadonlySet<KeepReason> = new Set<KeepReason>(["pinned", "labelled", "needed"]);
const RECHECK_AFTER = 60_000;

/**
 * Can any checkpoint have to be removed, now that one was saved?
 *
 * @param branch the branch of the save
 * @param policy the policy as it is stored
 * @param schedule `undefined` if this process has not swept the session yet
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
  // At most one row per millisecond is read: where checkpoints expire all the time, they are removed in groups.
  return schedule.rows <= SMALL_SESSION_ROWS || Math.abs(now - schedule.sweptAt) >= schedule.rows;
}

/** When the session has to be swept again. */
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

/** How many saves, on any branch, cannot make a sweep necessary. */
function safeSaves({ checkpoints, kept, reasons, rules }: Sweep): number {
  const isCalendar = rules.hourly > 0 || rules.daily > 0 || rules.weekly > 0;
  // With `keepLast` no save may leave one checkpoint too many; calendar rules of large sessions may lag.
  const slack = rules.last === 0 && kept.length > SMALL_SESSION_ROWS ? Math.floor(kept.length / 8) : 0;
  // A hidden head has its seq already, and may still get a row.
  const hidden = checkpoints.branches.filter(({ record }) => record.hidden).length;
  return Math.max(0, (isCalendar ? slack : savesWithinLast(kept, reasons, rules)) - hidden);
}

/** How many saves, on any branch, push no checkpoint out of the last ones that are kept. */
function savesWithinLast(
  kept: readonly CheckpointRow[],
  reasons: Sweep["reasons"],
  { last, within, unexpired }: RetentionRules,
): number {
  if (unexpired) return Number.POSITIVE_INFINITY;
  // The head is always kept.
  const recent = Math.max(last, 1);
  const isLasting = (why: readonly KeepReason[] = []): boolean => why.includes("within") || why.includes("kind");
  let saves = within ? Number.POSITIVE_INFINITY : recent;
  for (const ofBranch of groupByBranch(kept)) {
    const newest = last > 0 ? ofBranch.filter(({ seq }) => reasons.get(seq)?.includes("last")) : ofBranch.slice(-1);
    const first = newest.findIndex(({ seq }) => !isLasting(reasons.get(seq)));
    // Checkpoints that are kept for their age or kind stay when they are pushed out, and so do those that are saved next.
    if (first < 0) saves = Math.min(saves, within ? saves : recent);
    else saves = Math.min(saves, recent - newest.length + first);
  }
  return saves;
}

/** The time until which no checkpoint, existing or saved from now on, becomes too old. */
function safeUntilTime({ kept, reasons, session, rules, now }: Sweep): number {
  const { ttl, within } = rules;
  const recheck = now + RECHECK_AFTER;
  // An expired checkpoint that is kept hides the expiry of those that other processes save from the session's record.
  const { earliestExpiry = Number.POSITIVE_INFINITY } = session;
  const times = [
    now + Math.min(ttl ?? Number.POSITIVE_INFINITY, within ?? Number.POSITIVE_INFINITY) - 1,
    now > earliestExpiry ? recheck : earliestExpiry,
  ];
  for (const row of kept) {
    const why = reasons.get(row.seq) ?? [];
    if (why.every((reason) => REVOCABLE.has(reason))) times.push(recheck);
    if (why.includes("kind")) continue;
    // Without its pin or label it would expire like any other, or has done so already.
    const expiry = effectiveExpiry(row, rules, false) ?? Number.POSITIVE_INFINITY;
    if (now <= expiry) times.push(expiry);
    else if (why.some((reason) => REVOCABLE.has(reason))) times.push(recheck);
    if (why.includes("within")) times.push(row.createdAt + (within ?? 0) - 1);
  }
  return times.reduce((earliest, time) => Math.min(earliest, time));
}

/** Branches whose next save makes a checkpoint removable: their head, or the state before the rewind to it. */
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
