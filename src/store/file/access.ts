/**
 * Access to the contents of a store. Reading first catches up with other processes, and never needs the lock. Writing needs
 * the lock, and within this process one caller writes at a time.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { SavepointError } from "../../errors.js";
import { isMissingFileError, Mutex } from "../../util/index.js";
import { CatalogFileError } from "./catalog-file.js";
import type { StoreContents } from "./contents.js";
import { FileReplacedError } from "./file-handles.js";
import { type FolderLock, LockLostError } from "./lock.js";

/** How often a read is retried while another process replaces a file, which takes milliseconds. */
const MAX_READS = 60;
/** After this many reads, the new file is accepted before the commit log mentions it. */
const READS_BEFORE_ADOPTING = 8;
/** How often work is restarted because another process took over the lock. */
export const MAX_ATTEMPTS = 5;

export class StoreAccess {
  readonly #mutex = new Mutex();
  /** The failure after which nothing may be written. */
  #poison: unknown;
  /** Whether the contents in memory may be wrong. */
  #mustLoad = true;
  /** Whether the files must be repaired before the next write. */
  #mustRepair = false;

  constructor(
    readonly contents: StoreContents,
    readonly lock: FolderLock,
  ) {}

  /**
   * Runs work with the lock held, after catching up with other processes. Synchronous work does not yield to the event loop
   * while the lock is held. If another process takes over the lock, the work fails with {@link LockLostError} and is
   * restarted.
   */
  exclusive<T>(work: () => T | Promise<T>): Promise<T> {
    return this.#mutex.run(async () => {
      for (let attempt = 1; ; attempt++) {
        if (this.#poison) throw this.#poisonedError();
        try {
          return await this.lock.hold((abandoned) => {
            this.#prepareToWrite(abandoned);
            return work();
          });
        } catch (error) {
          if (!isLockLost(error) || attempt >= MAX_ATTEMPTS) throw error;
          this.invalidate();
        }
      }
    });
  }

  /**
   * Acquires the lock again, within {@link exclusive}, after another process took it over.
   *
   * @param fence the newest fence that was known before
   * @returns the last valid commit among those that were written before
   */
  async reacquireLock(fence: number): Promise<number> {
    for (let attempt = 1; ; attempt++) {
      this.invalidate();
      this.lock.release();
      try {
        await this.lock.acquire((abandoned) => this.#prepareToWrite(abandoned));
        const { fences, catalog } = this.contents;
        return fences.lastCommitOf(fence) ?? catalog.lastCommit;
      } catch (error) {
        if (!isLockLost(error) || attempt >= MAX_ATTEMPTS) throw error;
      }
    }
  }

  /**
   * Runs a synchronous read, which sees everything that was committed before this call.
   *
   * @param work its argument is true for the last attempt: then a missing file is missing for good
   */
  async read<T>(work: (isLastAttempt: boolean) => T): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      const isLast = attempt >= MAX_READS;
      try {
        if (!this.#mustLoad && !this.contents.catchUp()) this.invalidate();
        if (this.#mustLoad) this.#load(attempt > READS_BEFORE_ADOPTING);
        return work(isLast);
      } catch (error) {
        if (error instanceof CatalogFileError) {
          this.contents.distrustCatalogFile();
          this.invalidate();
          continue;
        }
        if (!(error instanceof FileReplacedError) || isLast) throw error;
        if (this.contents.isIndexed) this.invalidate();
        await sleep(attempt);
        if (attempt > READS_BEFORE_ADOPTING && !this.#mustLoad) this.contents.adopt(error);
      }
    }
  }

  /** Makes the next read or write load everything again, because the contents in memory may be wrong. */
  invalidate(): void {
    this.#mustLoad = true;
  }

  /** Loads everything again, and repairs it. The lock is held. */
  recover(): void {
    this.#mustLoad = true;
    this.contents.recover(this.lock);
    this.#mustLoad = false;
    this.#mustRepair = false;
  }

  /** Rejects all later writes, because it is unknown what has reached the disk. */
  poison(error: unknown): void {
    this.#poison = error;
  }

  get isPoisoned(): boolean {
    return this.#poison !== undefined;
  }

  /** Resolves when nothing is being written. */
  idle(): Promise<void> {
    return this.#mutex.idle();
  }

  /**
   * Catches up with other processes, and fences off those that lost the lock. The lock is held.
   *
   * @param abandoned the lock files of processes that died with the lock or lost it
   */
  #prepareToWrite(abandoned: readonly string[]): void {
    if (abandoned.length > 0 || this.#mustLoad || this.#mustRepair || !this.#catchUp()) this.recover();
    if (abandoned.length === 0) return;
    // This loop ends: a process that lost the lock adds to the log at most once before it notices.
    while (!this.contents.raiseFence(this.lock)) this.recover();
    this.lock.removeAbandoned(abandoned);
  }

  #catchUp(): boolean {
    try {
      return this.contents.catchUp();
    } catch (error) {
      // The process that replaced a file died before it could add that to the log.
      if (error instanceof FileReplacedError) return false;
      throw error;
    }
  }

  /** Loads everything again, without the lock. */
  #load(acceptsReplaced: boolean): void {
    const { log } = this.contents;
    const logBefore = log.observe();
    const before = this.lock.observe();
    if (this.contents.loadCatalogFile(!before.isFree)) {
      // A process that writes scans the files first.
      [this.#mustLoad, this.#mustRepair] = [false, true];
      return;
    }
    let needsRepair = this.contents.load({ isBusy: !before.isFree, acceptsReplaced });
    if (before.isFree) {
      const after = this.lock.observe();
      // If file times are coarse, the lock may have been acquired without a change of the time. Then it is still held, or a
      // line was added to the log before it was released.
      const isUntouched = after.isFree && after.mark === before.mark && log.observe() === logBefore;
      if (!isUntouched) needsRepair = this.contents.load({ isBusy: true, acceptsReplaced });
    }
    this.#mustLoad = false;
    this.#mustRepair = needsRepair;
  }

  #poisonedError(): SavepointError<"IO_FAILED"> {
    const reason = this.#poison instanceof Error ? this.#poison.message : String(this.#poison);
    return new SavepointError(
      "IO_FAILED",
      `An earlier write to ${this.contents.url} failed: ${reason}. It is unknown how much of it reached the disk. Open the store again; everything that was acknowledged is safe.`,
      { cause: this.#poison },
    );
  }
}

/**
 * Whether the lock was lost. A temporary file that is missing when it is to be renamed was removed by a process that took
 * over the lock, even if that process has lost the lock again since.
 */
function isLockLost(error: unknown): boolean {
  if (error instanceof LockLostError) return true;
  return isMissingFileError(error) && (error as NodeJS.ErrnoException).syscall === "rename";
}
