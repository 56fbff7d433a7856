/** Options that several stores know. */
import { type Duration, toMilliseconds } from "../../util/index.js";

/** What a commit survives. */
export type Durability = "power" | "process";

/** Options of a store on a disk. */
export interface DiskOptions {
  /**
   * `"power"`: what is committed survives a power cut; each group of commits waits for the disk. `"process"`: it survives
   * `kill -9` but not a power cut, and commits do not wait for the disk.
   * @default "power"
   */
  readonly durability?: Durability;
  /**
   * How long a commit waits for another process that is writing, before it fails with `BUSY`. On plain files this counts from
   * the last sign of life of that process.
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
   * The clock, in milliseconds.
   * @default Date.now
   */
  readonly now?: () => number;
  /**
   * Told when something fails while nobody waits for it, such as packing what is stored, by which nothing is lost; or when
   * a commit is found so damaged that nobody can tell what it was.
   * @default console.warn
   */
  readonly onBackgroundFailure?: (failure: BackgroundFailure) => void;
  /**
   * Called once when the store finds that its files were removed or replaced while it was open.
   * @default none: the commit that notices it is rejected in any case
   */
  readonly onDamage?: (reason: string) => void;
  /**
   * How what was written is made durable. For tests and benchmarks: a disk that is slow, or fails.
   * @default fdatasync of node:fs
   */
  readonly syncFile?: SyncFile;
  /**
   * Called at every named point of a write, with its name. For crash tests: the process may be killed there.
   */
  readonly probe?: (point: string) => void;
}

/** Something that failed while nobody waited for it. */
export interface BackgroundFailure {
  /** What was being done, and what becomes of it. */
  readonly message: string;
  readonly error: unknown;
}

/** Tells of a failure in the background as the options want it. */
export function createFailureReporter(options: DiskOptions): (message: string, error: unknown) => void {
  const { onBackgroundFailure } = options;
  return (message, error) => {
    try {
      if (onBackgroundFailure) onBackgroundFailure({ message, error });
      else console.warn(`savepoint: ${message}:`, error);
    } catch (failure) {
      console.error("savepoint: the function that is told of failures in the background has failed:", failure);
    }
  };
}

/** Syncs an open file, like `fdatasync` of node:fs. */
export type SyncFile = (file: number, done: (error: Error | null) => void) => void;

/** How long to wait for other processes, in milliseconds. */
export function busyTimeoutOf(options: Pick<DiskOptions, "busyTimeout">): number {
  return toMilliseconds(options.busyTimeout ?? 10_000, "busyTimeout");
}
