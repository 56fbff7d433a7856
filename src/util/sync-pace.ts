/** A sync that takes less than this, in milliseconds, counts as fast. */
const FAST = 1;
/** How many consecutive syncs must have been fast. */
const STREAK = 8;

/**
 * Measures whether a disk is fast enough to sync on the event loop.
 *
 * A sync on another thread adds about as much time as a sync takes on a fast disk. A disk counts as fast after several
 * consecutive fast syncs, until the next slow one.
 */
export class SyncPace {
  #streak = 0;

  get isFast(): boolean {
    return this.#streak >= STREAK;
  }

  /** Records the duration of a sync, in milliseconds. */
  record(duration: number): void {
    this.#streak = duration < FAST ? this.#streak + 1 : 0;
  }
}
