/**
 * Whether a disk is fast enough to be waited for on the event loop.
 *
 * Syncing on another thread costs about as much extra time as a sync on a fast disk takes. A disk counts as fast after
 * several fast syncs in a row, until the next slow one.
 */

/** A sync that takes less than this, in milliseconds, counts as fast. */
const FAST = 1;
/** How many syncs in a row must have been fast. */
const STREAK = 8;

export class SyncPace {
  #streak = 0;

  get isFast(): boolean {
    return this.#streak >= STREAK;
  }

  /** Notes how long a sync took, in milliseconds. */
  record(duration: number): void {
    this.#streak = duration < FAST ? this.#streak + 1 : 0;
  }
}
