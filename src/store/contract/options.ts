/** Options that several stores share. */
import { type Duration, invalidArgument, PRIVATE_MODE, toMilliseconds } from "../../util/index.js";

/** What a commit survives: a power cut, or only the death of the process. */
export type Durability = "power" | "process";

/** Options of a store on a disk. */
export interface DiskOptions {
  /**
   * `"power"`: committed data survives a power cut; each group of commits waits for the disk. `"process"`: committed data
   * survives `kill -9` but not a power cut; commits do not wait for the disk.
   * @default "power"
   */
  readonly durability?: Durability;
  /**
   * How long a commit waits for another process that is writing, before it fails with `BUSY`. On plain files the time counts from
   * the last sign of life of that process, and normally the commit takes over the lock earlier: after half of this time, but at
   * least 2 and at most 5 seconds.
   * @default "10s"
   */
  readonly busyTimeout?: Duration;
  /**
   * Create the store if it does not exist, and upgrade one of an older format. With `false`, opening such a store fails with
   * `STORE_NOT_FOUND` or `STORE_TOO_OLD` and changes nothing: for tools that inspect a store.
   * @default true
   */
  readonly create?: boolean;
  /**
   * Open the store only to read it. Nothing is written to it: no lock, no registration of this process, no index, no
   * migration. Every write is rejected with `READ_ONLY`. Implies `create: false`. The first search builds an index in memory.
   * @default false
   */
  readonly readOnly?: boolean;
  /**
   * The permissions of new files, as in `chmod`. New folders have the same, plus the right to enter for everyone
   * who may read. The umask does not restrict them, and existing files keep theirs. `0o660` shares a store with a group.
   * Windows ignores it.
   * @default 0o600: only the user can read the store
   */
  readonly mode?: number;
  /**
   * The clock, in milliseconds.
   * @default Date.now
   */
  readonly now?: () => number;
  /**
   * Called when background work fails, such as packing, by which no data is lost; and when a commit is found so damaged that
   * its contents are unknown.
   * @default console.warn
   */
  readonly onBackgroundFailure?: (failure: BackgroundFailure) => void;
  /**
   * Called once when the store finds that its files were removed or replaced while it was open. The commit that detects it is
   * rejected in any case.
   * @default none
   */
  readonly onDamage?: (reason: string) => void;
}

/** A failure of background work, which no call reports. */
export interface BackgroundFailure {
  /** What failed, and the consequence. */
  readonly message: string;
  readonly error: unknown;
}

/** Creates a function that reports background failures to `onBackgroundFailure` or the console. It never throws. */
export function createFailureReporter(
  options: Pick<DiskOptions, "onBackgroundFailure">,
): (message: string, error: unknown) => void {
  const { onBackgroundFailure } = options;
  return (message, error) => {
    try {
      if (onBackgroundFailure) onBackgroundFailure({ message, error });
      else console.warn(`savepoint: ${message}:`, error);
    } catch (failure) {
      console.error("savepoint: onBackgroundFailure has thrown:", failure);
    }
  };
}

/** The permissions of new files. Throws `INVALID_ARGUMENT` if the user could not read and write them. */
export function fileModeOf({ mode = PRIVATE_MODE }: Pick<DiskOptions, "mode">): number {
  const isMode = Number.isInteger(mode) && mode >= 0 && mode <= 0o777 && (mode & PRIVATE_MODE) === PRIVATE_MODE;
  if (isMode) return mode;
  throw invalidArgument(
    `\`mode\` must be the permissions of a file that its owner can read and write, such as 0o660, got ${typeof mode === "number" ? `0o${mode.toString(8)}` : typeof mode}.`,
  );
}

/** How long to wait for other processes, in milliseconds. */
export function busyTimeoutOf(options: Pick<DiskOptions, "busyTimeout">): number {
  return toMilliseconds(options.busyTimeout ?? 10_000, "busyTimeout");
}
