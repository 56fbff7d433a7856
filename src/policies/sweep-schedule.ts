/**
 * When to look again for checkpoints that a retention policy removes. A sweep reads all rows of a session, so each one
 * records how long no save can make another one necessary.
 */
import { LruMap } from "../util/index.js";

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

/** The result of a sweep by a session's limit on automatic checkpoints. */
export interface AutomaticSchedule {
  /** The session's number. If it differs, the session was deleted and created again. */
  readonly number: number;
  /** The limit that the sweep applied. */
  readonly max: number;
  /** No save up to this seq needs another sweep. */
  readonly safeUntilSeq: number;
}

const MAX_SESSIONS = 10_000;

/** The sweep schedules of the sessions that this process used recently. A forgotten one costs another sweep. */
export class SweepSchedules {
  readonly #schedules = new LruMap<string, SweepSchedule>(MAX_SESSIONS);
  readonly #automatic = new LruMap<string, AutomaticSchedule>(MAX_SESSIONS);

  get(sessionId: string): SweepSchedule | undefined {
    return this.#schedules.peek(sessionId);
  }

  set(sessionId: string, schedule: SweepSchedule): void {
    this.#schedules.set(sessionId, schedule);
  }

  getAutomatic(sessionId: string): AutomaticSchedule | undefined {
    return this.#automatic.peek(sessionId);
  }

  setAutomatic(sessionId: string, schedule: AutomaticSchedule): void {
    this.#automatic.set(sessionId, schedule);
  }

  /** Makes the next save sweep: a label, a pin or a checkpoint has changed. */
  delete(sessionId: string): void {
    this.#schedules.delete(sessionId);
    this.#automatic.delete(sessionId);
  }

  /** Brings the next sweep forward to the expiry of a checkpoint that was just saved. */
  recordExpiry(sessionId: string, expiresAt: number | undefined): void {
    const schedule = this.#schedules.peek(sessionId);
    if (schedule && expiresAt !== undefined && expiresAt < schedule.safeUntilTime) {
      this.#schedules.set(sessionId, { ...schedule, safeUntilTime: expiresAt });
    }
  }
}
