/**
 * When to look again for checkpoints that a retention policy removes. A sweep reads all rows of a session, so each one
 * records how long no save can make another one necessary.
 */
import type { SessionRecord } from "../records/index.js";
import { LruMap } from "../util/index.js";
import type { RetentionRules } from "./rules.js";

/** The result of a sweep: until when the next one is not needed. */
export interface SweepSchedule {
  /** The session's number. If it differs, the session was deleted and created again. */
  readonly number: number;
  /** The stored policy that the sweep applied. */
  readonly policy: string;
  readonly sweptAt: number;
  /** How many rows the sweep read. */
  readonly rows: number;
  /** No save up to this seq makes another checkpoint removable. */
  readonly safeUntilSeq: number;
  /** No checkpoint becomes too old before this time. */
  readonly safeUntilTime: number;
  /** The session's `earliestExpiry` at the time of the sweep. */
  readonly earliestExpiry: number | undefined;
  /** Branches whose heads, or the `preOperation` checkpoints before them, become removable with the next save. */
  readonly prunableHeads: ReadonlySet<string>;
}

/** Sessions with at most this many rows are swept as soon as a checkpoint can be removable; larger ones a little later. */
export const SMALL_SESSION_ROWS = 64;

const MAX_SESSIONS = 10_000;

/** The sweep schedules of the sessions that this process used recently. A forgotten one costs another sweep. */
export class SweepSchedules {
  readonly #schedules = new LruMap<string, SweepSchedule>(MAX_SESSIONS);

  get(sessionId: string): SweepSchedule | undefined {
    return this.#schedules.peek(sessionId);
  }

  set(sessionId: string, schedule: SweepSchedule): void {
    this.#schedules.set(sessionId, schedule);
  }

  /** Makes the next save sweep: a label, a pin or a checkpoint has changed. */
  delete(sessionId: string): void {
    this.#schedules.delete(sessionId);
  }

  /** Brings the next sweep forward to the expiry of a checkpoint that was just saved. */
  recordExpiry(sessionId: string, expiresAt: number | undefined): void {
    const schedule = this.#schedules.peek(sessionId);
    if (schedule && expiresAt !== undefined && expiresAt < schedule.safeUntilTime) {
      this.#schedules.set(sessionId, { ...schedule, safeUntilTime: expiresAt });
    }
  }
}

/** Can a checkpoint be removable, now that one was saved on `branch`? */
export function needsSweep(
  session: SessionRecord,
  branch: string,
  rules: RetentionRules,
  policy: string,
  schedule: SweepSchedule | undefined,
  now: number,
): boolean {
  const isExpired = session.earliestExpiry !== undefined && now > session.earliestExpiry;
  if (!schedule || schedule.number !== session.number || schedule.policy !== policy) {
    const { last, unexpired, ttl } = rules;
    if (isExpired) return true;
    if (unexpired) return ttl !== undefined && session.checkpoints > 1;
    return ttl !== undefined || session.checkpoints > Math.max(last, 1);
  }
  if (session.nextSeq > schedule.safeUntilSeq || schedule.prunableHeads.has(branch)) return true;
  const isNewExpiry = isExpired && session.earliestExpiry !== schedule.earliestExpiry;
  if (now <= schedule.safeUntilTime && !isNewExpiry) return false;
  // At most one row per millisecond is read: where checkpoints age all the time, they are removed in groups.
  return schedule.rows <= SMALL_SESSION_ROWS || Math.abs(now - schedule.sweptAt) >= schedule.rows;
}
