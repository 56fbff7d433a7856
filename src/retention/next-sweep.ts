/** When the checkpoints of a session have to be looked at again: works out how long nothing can have to go. Pure. */
import {
  groupByBranch,
  effectiveExpiry,
  type KeepReason,
  type SweepSchedule,
  type RetentionRules,
  SMALL_SESSION_ROWS,
} from "../policies/index.js";
import type { SessionRecord } from "../records/index.js";
import type { CheckpointSet } from "./removal.js";
import { isLabelled, statesBeforeRewinds } from "./keep-reasons.js";

/** What others may take away without saving: whether they have is looked at once a minute. */
const REVOCABLE: ReadonlySet<KeepReason> = new Set<KeepReason>(["pinned", "labelled", "needed"]);
const RECONSIDER = 60_000;

/**
 * @param known the checkpoints as they were looked at
 * @param reasons why they stay; those without one are gone by now
 * @param session the record of the session without them
 */
export function planNextSweep(
  known: CheckpointSet,
  reasons: ReadonlyMap<number, readonly KeepReason[]>,
  session: SessionRecord,
  retention: RetentionRules,
  policy: string,
  now: number,
): SweepSchedule {
  const rows = known.rows.filter(({ seq }) => reasons.has(seq));
  const { ttl, within } = retention;
  const lastHeads = new Set<string>();
  const addHeads = (seq: number): void => {
    for (const { name } of known.heads.get(seq) ?? []) lastHeads.add(name);
  };
  for (const { seq } of statesBeforeRewinds(known)) addHeads(seq + 1);
  // What is saved from now on grows old as well.
  let deadline = now + Math.min(ttl ?? Number.POSITIVE_INFINITY, within ?? Number.POSITIVE_INFINITY) - 1;
  // One that expires and stays hides from the session's record when those do that others save.
  const { earliestExpiry: first = Number.POSITIVE_INFINITY } = session;
  deadline = Math.min(deadline, now > first ? now + RECONSIDER : first);
  for (const row of rows) {
    const why = reasons.get(row.seq) ?? [];
    if (why.every((reason) => REVOCABLE.has(reason))) deadline = Math.min(deadline, now + RECONSIDER);
    if (why.includes("kind")) continue;
    // Pins and labels may be taken away: then it grows old like any other, or has done so already.
    const time = effectiveExpiry(row, retention, false) ?? Number.POSITIVE_INFINITY;
    if (now <= time) deadline = Math.min(deadline, time);
    else if (why.some((reason) => REVOCABLE.has(reason))) deadline = Math.min(deadline, now + RECONSIDER);
    if (why.includes("within")) deadline = Math.min(deadline, row.createdAt + (within ?? 0) - 1);
    const isHeld = why.includes("pinned") || why.includes("needed");
    const expires = effectiveExpiry(row, retention, isLabelled(known, row)) ?? Number.POSITIVE_INFINITY;
    if (now > expires && !isHeld) addHeads(row.seq);
  }
  const isCalendar = retention.hourly > 0 || retention.daily > 0 || retention.weekly > 0;
  // With `keepLast` no save may leave one too many.
  const slack = retention.last === 0 && rows.length > SMALL_SESSION_ROWS ? Math.floor(rows.length / 8) : 0;
  // A hidden head has its seq already, and may get a row.
  const hidden = known.branches.filter(({ record }) => record.hidden).length;
  const spare = Math.max(0, (isCalendar ? slack : spareSaves(rows, reasons, retention)) - hidden);
  const { number, nextSeq } = session;
  const read = known.rows.length;
  return {
    number,
    policy,
    sweptAt: now,
    rows: read,
    safeUntilSeq: nextSeq + spare,
    safeUntilTime: deadline,
    earliestExpiry: session.earliestExpiry,
    prunableHeads: lastHeads,
  };
}

/** How many saves, on whatever branch, push no checkpoint out of the last ones that are kept. */
function spareSaves(
  rows: CheckpointSet["rows"],
  reasons: ReadonlyMap<number, readonly KeepReason[]>,
  { last, within, unexpired }: RetentionRules,
): number {
  if (unexpired) return Number.POSITIVE_INFINITY;
  // The head stays in any case.
  const recent = Math.max(last, 1);
  const lasting = (why: readonly KeepReason[] = []): boolean => why.includes("within") || why.includes("kind");
  let spare = within ? Number.POSITIVE_INFINITY : recent;
  for (const ofBranch of groupByBranch(rows)) {
    const newest = last > 0 ? ofBranch.filter(({ seq }) => reasons.get(seq)?.includes("last")) : ofBranch.slice(-1);
    const first = newest.findIndex(({ seq }) => !lasting(reasons.get(seq)));
    // Those that are wanted for their age stay when they are pushed out, and so do those that are saved next.
    if (first < 0) spare = Math.min(spare, within ? spare : recent);
    else spare = Math.min(spare, recent - newest.length + first);
  }
  return spare;
}
