/**
 * The validity of a lease, as its own process can know it. Pure arithmetic over moments: the caller passes the time.
 *
 * A renewal counts from the moment at which it began, because the store may have applied it at any time since. Other processes
 * decide by the store's clock, which is known only approximately. So this process does not rely on the last quarter of a
 * lease, and renews the lease before half of it has passed. Whether another process may take over is decided in runs/claims.
 */
import { elapsedBetween, type Moment } from "./moment.js";

/** The part of a lease during which no other process can have claimed its branches. */
const RELIABLE_PART = 0.75;
/** The part of a lease after which it is renewed before an effect begins. */
const FRESH_PART = 0.5;

export class LeaseWindow {
  readonly #length: number;
  /** The lease lasts from `at` on, and has not expired since `unbrokenSince`. */
  #renewal: { readonly at: Moment; readonly unbrokenSince: Moment } | undefined;

  /** @param length of a lease, in milliseconds */
  constructor(length: number) {
    this.#length = length;
  }

  /** Starts the lease with the claim that was prepared at a moment, unless it has started. */
  start(preparedAt: Moment): void {
    this.#renewal ??= { at: preparedAt, unbrokenSince: preparedAt };
  }

  /**
   * Adds a renewal, which began and was durable at these moments. If the lease may have expired in between, another process
   * may have claimed branches, so the unbroken time starts again.
   */
  renew(began: Moment, durable: Moment): void {
    const before = this.#renewal;
    const isUnbroken = before && elapsedBetween(before.at, durable) < this.#length * RELIABLE_PART;
    // Renewals of two threads may arrive in either order. The later one counts.
    const at = before && before.at.ticks > began.ticks ? before.at : began;
    this.#renewal = { at, unbrokenSince: isUnbroken ? before.unbrokenSince : durable };
  }

  /** Returns whether less than half of the lease has passed, so that an effect may begin without a renewal. */
  isFresh(now: Moment): boolean {
    return this.#renewal !== undefined && elapsedBetween(this.#renewal.at, now) < this.#length * FRESH_PART;
  }

  /** Returns whether the lease is fresh and has not expired since a moment. */
  isUnbrokenSince(moment: Moment, now: Moment): boolean {
    return this.isFresh(now) && this.#renewal !== undefined && this.#renewal.unbrokenSince.ticks <= moment.ticks;
  }
}
