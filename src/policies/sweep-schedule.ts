/**
 * What is remembered of having looked whether checkpoints of a session have to go, so that saves need not look each time.
 * Looking reads all rows of the session.
 */
import type { SessionRecord } from "../records/index.js";
import type { RetentionRules } from "./rules.js";

/** What is remembered of having looked. */
export interface SweepSchedule {
  /** The session's number: another one has been begun since, if it differs. */
  readonly number: number;
  /** The policy that it was looked at with. */
  readonly policy: string;
  readonly sweptAt: number;
  /** How many rows were read. */
  readonly rows: number;
  /** Up to this seq no save pushes another checkpoint out. */
  readonly safeUntilSeq: number;
  /** Up to this time none is too old. */
  readonly safeUntilTime: number;
  /** What the session's record said of the first expiry. */
  readonly earliestExpiry: number | undefined;
  /** Branches whose heads, or the ways back from them, may go as soon as they are heads no longer. */
  readonly prunableHeads: ReadonlySet<string>;
}

/** Sessions up to this size are looked at as often as anything can have to go; larger ones a little later. */
export const SMALL_SESSION_ROWS = 64;

/** Can any checkpoint have to go, now that one was saved on a branch? */
export function needsSweep(
  session: SessionRecord,
  branch: string,
  retention: RetentionRules,
  policy: string,
  look: SweepSchedule | undefined,
  now: number,
): boolean {
  const expired = session.earliestExpiry !== undefined && now > session.earliestExpiry;
  if (!look || look.number !== session.number || look.policy !== policy) {
    const { last, unexpired, ttl } = retention;
    if (expired) return true;
    if (unexpired) return ttl !== undefined && session.checkpoints > 1;
    return ttl !== undefined || session.checkpoints > Math.max(last, 1);
  }
  if (session.nextSeq > look.safeUntilSeq || look.prunableHeads.has(branch)) return true;
  if (now <= look.safeUntilTime && !(expired && session.earliestExpiry !== look.earliestExpiry)) return false;
  // A row each millisecond at most: where many grow old all the time, they go in groups.
  return look.rows <= SMALL_SESSION_ROWS || Math.abs(now - look.sweptAt) >= look.rows;
}
