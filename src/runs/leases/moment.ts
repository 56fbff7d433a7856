/**
 * A point in time of this process, for measuring durations safely.
 *
 * The system clock may be set back, and the monotonic clock may stop while the machine sleeps. A duration is therefore the
 * larger of the two measurements: a lease does not count as valid because a clock has stood still.
 */
import type { Context } from "../../context.js";

export interface Moment {
  /** Milliseconds since 1970, by the clock of the context. */
  readonly clock: number;
  /** Milliseconds of the monotonic clock, which all threads of a process share. */
  readonly ticks: number;
}

/** Reads both clocks. */
export function currentMoment({ now }: Pick<Context, "now">): Moment {
  return { clock: now(), ticks: Number(process.hrtime.bigint()) / 1e6 };
}

/** Reads both clocks in a thread that has no context. Its `clock` is the system clock. */
export function systemMoment(): Moment {
  return currentMoment({ now: Date.now });
}

/**
 * Converts a moment of another thread to the clock of this thread's context.
 *
 * @param now the current moment by the clock of the context
 */
export function toLocalMoment(moment: Moment, now: Moment, system: Moment = systemMoment()): Moment {
  return { clock: now.clock - elapsedBetween(moment, system), ticks: moment.ticks };
}

/** Milliseconds between two moments, by the clock that measured more. */
export function elapsedBetween(from: Moment, to: Moment): number {
  return Math.max(to.clock - from.clock, to.ticks - from.ticks);
}
