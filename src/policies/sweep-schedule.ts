/**
 * How long a session need not be swept for checkpoints to remove. A sweep reads all rows of the session, so saves sweep only
 * when the schedule of the last sweep has run out.
 */
export interface SweepSchedule {
  /** The number of the session. It differs if the session was deleted and created again. */
  readonly number: number;
  /** The policy of the sweep, as it is stored. */
  readonly policy: string;
  readonly sweptAt: number;
  /** How many rows the sweep has read. */
  readonly rows: number;
  /** Up to this seq no save pushes another checkpoint out of those that are kept. */
  readonly safeUntilSeq: number;
  /** Up to this time no checkpoint is too old. */
  readonly safeUntilTime: number;
  /** The earliest expiry in the session's record after the sweep. */
  readonly earliestExpiry: number | undefined;
  /** Branches whose next save makes a checkpoint removable: their head, or the state before the rewind to it. */
  readonly prunableHeads: ReadonlySet<string>;
}
