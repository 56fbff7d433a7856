/**
 * A moment of this process, to tell how long ago it was. The clock may be set back, and what only counts the time while
 * the machine runs misses its sleep: whichever of them says that more time has passed is believed.
 */
import type { Context } from "../../context.js";

export interface Moment {
  readonly clock: number;
  /** Milliseconds, counted alike in all threads. */
  readonly ticks: number;
}

export function currentMoment({ now }: Pick<Context, "now">): Moment {
  return { clock: now(), ticks: Number(process.hrtime.bigint()) / 1e6 };
}

/** A moment of another thread of this process, by the machine's clock: that of the context may be another. */
export function systemMoment(): Moment {
  return currentMoment({ now: Date.now });
}

/** What was a moment of another thread, as one of this. */
export function toLocalMoment(told: Moment, now: Moment, machine: Moment = systemMoment()): Moment {
  return { clock: now.clock - elapsedBetween(told, machine), ticks: told.ticks };
}

/** Milliseconds from one to the other, at least. */
export function elapsedBetween(from: Moment, to: Moment): number {
  return Math.max(to.clock - from.clock, to.ticks - from.ticks);
}
