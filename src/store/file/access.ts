/**
 * Reading and writing the contents. Reading first catches up with other processes, and never needs the lock. Writing needs
 * the lock, and within this process only one caller writes at a time.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { SavepointError } from "../../errors.js";
import type { StoreContents } from "./contents.js";
import { FileReplacedError } from "./data-file.js";
import { isMissingFileError } from "../../util/index.js";
import { type FolderLock, LockLostError } from "./lock.js";

/** How often to look again while another process replaces a file, which takes milliseconds. */
const MAX_TRIES = 60;
/** After so many looks the new file is accepted, although it is not in the list of commits yet. */
const PATIENCE = 8;
/** How often work is restarted because the lock was taken over meanwhile. */
export const MAX_ATTEMPTS = 5;

export class StoreAccess {
  readonly contents: StoreContents;
  readonly lock: FolderLock;
  #turn: Promise<unknown> = Promise.resolve();
  #poisoned: unknown;
  /** What this process knows may be wrong. */
  #mustLoad = true;
  /** What is stored must be repaired before it is written to. */
  #mustRepair = false;

  constructor(contents: StoreContents, lock: FolderLock) {
    this.contents = contents;
    this.lock = lock;
  }

  /**
   * Runs work with the lock held, after catching up with other processes. Synchronous work does not yield to the event loop
   * while the lock is held. If the lock is taken over meanwhile, the work fails with {@link LockLostError} and is restarted.
   */
  exclusive<T>(work: () => T | Promise<T>): Promise<T> {
    const mine = this.#turn.then(async () => {
      for (let attempt = 1; ; attempt++) {
        if (this.#poisoned) throw this.#refuse();
        try {
          return await this.lock.hold((left) => {
            this.#prepare(left);
            return work();
          });
        } catch (error) {
          if (!isLost(error) || attempt >= MAX_ATTEMPTS) throw error;
          this.invalidate();
        }
      }
    });
    this.#turn = mine.catch(() => {});
    return mine;
  }

  /**
   * Takes the lock again, within {@link exclusive}, after it was taken over by another process.
   *
   * @param fence the newest one that was known before
   * @returns the last valid commit among those that were written before
   */
  async reacquireLock(fence: number): Promise<number> {
    for (let attempt = 1; ; attempt++) {
      this.invalidate();
      this.lock.release();
      try {
        await this.lock.acquire((left) => this.#prepare(left));
        const { fences, catalog } = this.contents;
        return fences.lastCommitOf(fence) ?? catalog.lastCommit;
      } catch (error) {
        if (!isLost(error) || attempt >= MAX_ATTEMPTS) throw error;
      }
    }
  }

  /** Reads, knowing all that was committed before. `last` says that what is missing now is missing for good. */
  async read<T>(work: (last: boolean) => T): Promise<T> {
    for (let tries = 1; ; tries++) {
      const last = tries >= MAX_TRIES;
      try {
        if (!this.#mustLoad && !this.contents.catchUp()) this.invalidate();
        if (this.#mustLoad) this.#load(tries > PATIENCE);
        return work(last);
      } catch (error) {
        if (!(error instanceof FileReplacedError) || last) throw error;
        await sleep(tries);
        if (tries > PATIENCE && !this.#mustLoad) this.contents.adopt(error);
      }
    }
  }

  /** What this process knows may be wrong: everything is read anew before anything else is read or written. */
  invalidate(): void {
    this.#mustLoad = true;
  }

  /** Reads everything again, and repairs it. The lock is held. */
  recover(): void {
    this.#mustLoad = true;
    this.contents.recover(this.lock);
    this.#mustLoad = false;
    this.#mustRepair = false;
  }

  /** It is unknown what reached the disk: nothing is written through this handle any more. */
  poison(error: unknown): void {
    this.#poisoned = error;
  }

  get isPoisoned(): boolean {
    return this.#poisoned !== undefined;
  }

  /** Resolves when nothing is being written. */
  async idle(): Promise<void> {
    await this.#turn;
  }

  /**
   * Catches up with all that other processes have written. The lock is held.
   *
   * @param left the files of processes that died with the lock or lost it
   */
  #prepare(left: readonly string[]): void {
    if (left.length > 0 || this.#mustLoad || this.#mustRepair || !this.#catchUp()) this.recover();
    if (left.length === 0) return;
    // This loop ends: a process that lost the lock adds to the list at most once before it notices.
    while (!this.contents.raiseFence(this.lock)) this.recover();
    this.lock.removeAbandoned(left);
  }

  #catchUp(): boolean {
    try {
      return this.contents.catchUp();
    } catch (error) {
      // The process that replaced it died before it could add that to the list.
      if (error instanceof FileReplacedError) return false;
      throw error;
    }
  }

  /** Reads everything again, without the lock. */
  #load(adopts: boolean): void {
    const { log } = this.contents;
    const logBefore = log.observe();
    const before = this.lock.observe();
    let needsRepair = this.contents.load({ isBusy: !before.isFree, adopts });
    if (before.isFree) {
      const after = this.lock.observe();
      // If file times are coarse, the lock may have been taken without a change of the time. Then it is still held, or a
      // line was added to the list before it was released.
      const isUntouched = after.isFree && after.mark === before.mark && log.observe() === logBefore;
      if (!isUntouched) needsRepair = this.contents.load({ isBusy: true, adopts });
    }
    this.#mustLoad = false;
    this.#mustRepair = needsRepair;
  }

  #refuse(): SavepointError<"IO_FAILED"> {
    const reason = this.#poisoned instanceof Error ? this.#poisoned.message : String(this.#poisoned);
    return new SavepointError(
      "IO_FAILED",
      `An earlier write to ${this.contents.url} failed: ${reason}. It is unknown how much of it reached the disk. Open the store again; everything that was acknowledged is safe.`,
      { cause: this.#poisoned },
    );
  }
}

/**
 * Was the lock lost? If a temporary file is gone when it is to be renamed, a process that was taking over the lock has removed
 * it, even if that process has lost the lock again since.
 */
function isLost(error: unknown): boolean {
  if (error instanceof LockLostError) return true;
  return isMissingFileError(error) && (error as NodeJS.ErrnoException).syscall === "rename";
}
