/**
 * The lock of a store. Only the process that holds the lock may write.
 *
 * To acquire the lock, a process creates a file with a unique name in the lock folder. The process holds the lock if there is no
 * other file. If two processes create their files at the same time, at least one of them sees the file of the other, so two
 * processes never hold the lock. The process that requested the lock first keeps its file and waits. The others remove their files
 * and try again.
 *
 * The holder refreshes its file while it works. The file of a dead process is ignored. A living process that does not refresh its
 * file is frozen, blocks its event loop, or runs on an unreachable machine. After a while of such silence, another process takes
 * over the lock: it renames the file, which the old holder notices before it acknowledges a write, and adds a fence that makes
 * later writes of the old holder void (fences.ts). Renamed files and the files of dead processes stay until the fence is written.
 */
import { closeSync, existsSync, lstatSync, openSync, readdirSync, renameSync, statSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { SavepointError } from "../../errors.js";
import { isMissingFileError, PRIVATE_MODE } from "../../util/index.js";
import {
  fencedName,
  isAbandoned,
  isLockName,
  isPendingRemoval,
  newLockName,
  pidOf,
  removeFile,
  removeOwnLock,
  retryRemovals,
} from "./lock-files.js";

/**
 * The limits of the silence after which a lock is taken over, in milliseconds. Within them it is half of the busy timeout.
 */
const MAX_SILENCE = 5_000;
const MIN_SILENCE = 2_000;
/** How often the holder refreshes its file within the time after which its lock would be taken over. */
const REFRESHES = 4;
/** Pauses between two attempts to acquire the lock, in milliseconds. */
const MIN_PAUSE = 1;
const MAX_EXTRA_PAUSE = 4;
/**
 * The most milliseconds between two checks that count as silence of another process. A longer time may mean that this process was
 * frozen itself.
 */
const MAX_STEP = 100;

export interface LockOptions {
  /**
   * How long to wait for another process that shows no sign of life before failing with `BUSY`, in milliseconds. Normally the lock
   * of such a process is taken over earlier, after `silence`. So `BUSY` occurs if `timeout` is shorter than `silence`, or if the
   * takeover fails.
   */
  readonly timeout: number;
  /**
   * How long a holder may be silent before its lock is taken over, in milliseconds. Tests use a short time.
   * @default half of `timeout`, but at least 2 s and at most 5 s
   */
  readonly silence?: number | undefined;
  /**
   * The permissions of new lock files. Only their names matter to other processes.
   * @default 0o600
   */
  readonly mode?: number;
  readonly report: (message: string, error: unknown) => void;
}

/** The members of a lock that its holder uses while it works. */
export type HeldLock = Pick<FolderLock, "assertHeld" | "isHeld" | "refresh">;

/**
 * Thrown when another process has taken over the lock, so that this process must not write. The message describes the situation
 * after all retries have failed.
 */
export class LockLostError extends SavepointError<"BUSY"> {
  constructor(url: string) {
    super(
      "BUSY",
      `Writing to ${url} failed: other processes took over its lock several times in a row, because this process showed no sign of life. Nothing was written. Keep the event loop free, and try again.`,
    );
  }
}

/** How long the file of another process has not been refreshed, as observed by this process. */
interface Observation {
  refreshedAt: number;
  silence: number;
  checkedAt: number;
}

/** Another living process that holds the lock or waits for it. */
interface Rival {
  readonly name: string;
  /** How long the rival has shown no sign of life, in milliseconds. */
  readonly silence: number;
  /** The part of `silence` for which this process has been waiting. */
  readonly waited: number;
}

export class FolderLock {
  readonly #folder: string;
  readonly #url: string;
  readonly #timeout: number;
  readonly #silence: number;
  readonly #mode: number;
  readonly #report: (message: string, error: unknown) => void;
  readonly #observations = new Map<string, Observation>();
  /** Abandoned files of other processes that have been fenced off and could not be removed. */
  readonly #unremovable = new Set<string>();
  /** The file of this process, while it holds the lock. */
  #own: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  #refreshedAt = 0;
  #isReported = false;

  constructor(folder: string, url: string, { timeout, silence, mode = PRIVATE_MODE, report }: LockOptions) {
    this.#folder = folder;
    this.#url = url;
    this.#timeout = timeout;
    this.#silence = silence ?? Math.min(MAX_SILENCE, Math.max(MIN_SILENCE, timeout / 2));
    this.#mode = mode;
    this.#report = report;
  }

  /**
   * Waits for the lock, and runs `work` while it is held. If `work` is synchronous, the lock is released before any other code of
   * this process runs.
   *
   * @param work receives the files of processes that died with the lock or lost it: see {@link removeAbandoned}
   */
  async hold<T>(work: (abandoned: readonly string[]) => T | Promise<T>): Promise<T> {
    let result: T | Promise<T> | undefined;
    await this.acquire((abandoned) => {
      result = work(abandoned);
      if (!(result instanceof Promise)) this.release();
    });
    try {
      return await (result as T | Promise<T>);
    } finally {
      this.release();
    }
  }

  /**
   * Waits for the lock. Fails with `BUSY` if another process that holds the lock or waits for it has shown no sign of life for the
   * whole timeout, and the lock was not taken over.
   *
   * @param begin called synchronously as soon as the lock is held, with the files of processes that died with the lock or lost it;
   *   if it throws, the lock is released
   */
  async acquire(begin: (abandoned: readonly string[]) => void): Promise<void> {
    const requestedAt = Date.now();
    /** How long each rival had been silent when this process began to wait for it. */
    const silenceBefore = new Map<string, number>();
    let name: string | undefined;
    try {
      for (;;) {
        this.#retryRemovals();
        // Another process may have renamed the file of this process while it waited.
        if (name === undefined || !existsSync(this.#path(name))) name = this.#create(requestedAt);
        const own = name;
        const present = this.#files();
        const others = present.filter((other) => other !== own);
        const rivals = this.#rivals(others, silenceBefore);
        const active = rivals.filter(({ silence }) => silence <= this.#silence);
        const isFree = active.length === 0 && present.includes(own);
        if (isFree && rivals.every((rival) => this.#fenceOff(rival.name))) {
          this.#own = own;
          this.#observations.clear();
          begin(others.length === 0 ? [] : this.#abandoned());
          if (this.#own !== undefined) this.#startRefreshing();
          return;
        }
        const isFirst = active.every((rival) => own < rival.name);
        // A waiting process must refresh its file too.
        if (isFirst) this.#touch(own);
        else {
          this.#removeOwn(own);
          name = undefined;
        }
        if (rivals.some(({ waited }) => waited > this.#timeout)) throw this.#busy(rivals);
        await sleep(isFirst ? MIN_PAUSE : MIN_PAUSE + Math.random() * MAX_EXTRA_PAUSE);
      }
    } catch (error) {
      this.release();
      if (name !== undefined) this.#removeOwn(name);
      throw error;
    }
  }

  /** Releases the lock. If its file cannot be removed now, the removal is retried later. Does nothing if the lock is not held. */
  release(): void {
    clearInterval(this.#timer);
    const own = this.#own;
    this.#own = undefined;
    if (own !== undefined && this.#removeOwn(own)) this.#isReported = false;
  }

  /** Removes the files of processes that died with the lock or lost it, after they have been fenced off. */
  removeAbandoned(names: readonly string[]): void {
    for (const name of names) {
      const error = removeFile(this.#path(name));
      if (error === undefined) continue;
      this.#unremovable.add(name);
      this.#reportOnce(error);
    }
  }

  /** Whether this process still holds the lock. It does not if another process has taken over the lock. */
  get isHeld(): boolean {
    return this.#own !== undefined && existsSync(this.#path(this.#own));
  }

  /** Throws {@link LockLostError} if this process does not hold the lock. To be called before each write. */
  assertHeld(): void {
    if (!this.isHeld) throw new LockLostError(this.#url);
  }

  /** Refreshes the file of this process. To be called during work that does not yield to the event loop. */
  refresh(): void {
    if (this.#own !== undefined) this.#touch(this.#own);
  }

  /**
   * Returns whether no other process can be writing, and a mark that changes when the lock is acquired or released. On file systems
   * with coarse times (Linux before 6.13: up to 10 ms), several changes in a row may leave the mark the same.
   */
  observe(): { isFree: boolean; mark: string } {
    // A read-only store may lack the folder: no process has it open for writing then.
    const stats = statSync(this.#folder, { bigint: true, throwIfNoEntry: false });
    if (!stats) return { isFree: true, mark: "" };
    const isFree = this.#files().every((name) => this.#unremovable.has(name) || isAbandoned(name));
    return { isFree, mark: String(stats.mtimeNs) };
  }

  #path(name: string): string {
    return join(this.#folder, name);
  }

  #create(requestedAt: number): string {
    const name = newLockName(requestedAt);
    closeSync(openSync(this.#path(name), "wx", this.#mode));
    this.#refreshedAt = performance.now();
    return name;
  }

  #retryRemovals(): void {
    retryRemovals(this.#folder);
    for (const name of this.#unremovable) {
      if (removeFile(this.#path(name)) === undefined) this.#unremovable.delete(name);
    }
  }

  /** The names of all lock files: of the holder, of processes that wait for the lock, and abandoned ones. */
  #files(): string[] {
    return readdirSync(this.#folder).filter((name) => isLockName(name) && !isPendingRemoval(this.#path(name)));
  }

  #abandoned(): string[] {
    return this.#files().filter((name) => !this.#unremovable.has(name) && isAbandoned(name));
  }

  /** The living processes among the owners of these files. */
  #rivals(names: readonly string[], silenceBefore: Map<string, number>): Rival[] {
    const living = names.filter((name) => !this.#unremovable.has(name) && !isAbandoned(name));
    return living.map((name) => {
      const silence = this.#measureSilence(name);
      const before = Math.min(silenceBefore.get(name) ?? silence, silence);
      silenceBefore.set(name, before);
      return { name, silence, waited: silence - before };
    });
  }

  /**
   * How long another process has not refreshed its file, in milliseconds. Measured with the clock of this process, because the
   * clocks of two machines differ.
   */
  #measureSilence(name: string): number {
    // Not `stat`: a link could point to a file that changes all the time, and the lock would never expire.
    const refreshedAt = lstatSync(this.#path(name), { throwIfNoEntry: false })?.mtimeMs ?? 0;
    const now = performance.now();
    const last = this.#observations.get(name);
    if (last?.refreshedAt !== refreshedAt) {
      this.#observations.set(name, { refreshedAt, silence: 0, checkedAt: now });
      return 0;
    }
    last.silence += Math.min(now - last.checkedAt, MAX_STEP);
    last.checkedAt = now;
    return last.silence;
  }

  /** Takes the lock from a silent process. Returns whether that process no longer holds the lock. */
  #fenceOff(name: string): boolean {
    try {
      renameSync(this.#path(name), this.#path(fencedName(name)));
    } catch (error) {
      // The process has continued and removed its file.
      if (isMissingFileError(error)) return true;
      this.#reportOnce(error);
      return false;
    }
    return true;
  }

  #startRefreshing(): void {
    clearInterval(this.#timer);
    this.#timer = setInterval(() => this.refresh(), this.#silence / REFRESHES).unref();
  }

  #touch(name: string): void {
    if (performance.now() - this.#refreshedAt < this.#silence / REFRESHES / 2) return;
    this.#refreshedAt = performance.now();
    const now = new Date();
    try {
      utimesSync(this.#path(name), now, now);
    } catch (error) {
      // A missing file means that another process has taken over the lock. `assertHeld` detects this before the next write.
      if (!isMissingFileError(error)) this.#reportOnce(error);
    }
  }

  /** Removes a file of this process, or schedules the removal if it fails. Returns whether the file has been removed. */
  #removeOwn(name: string): boolean {
    const error = removeOwnLock(this.#path(name));
    if (error !== undefined) this.#reportOnce(error);
    return error === undefined;
  }

  #reportOnce(error: unknown): void {
    if (this.#isReported) return;
    this.#isReported = true;
    this.#report(
      `a file in the lock folder of ${this.#url} could not be changed or removed; this is retried, and other processes may have to wait until it succeeds`,
      error,
    );
  }

  #busy(rivals: readonly Rival[]): SavepointError<"BUSY"> {
    const pids = rivals.map(({ name }) => pidOf(name));
    return new SavepointError(
      "BUSY",
      `Writing to ${this.#url} waited ${this.#timeout} ms for its lock. Processes that hold it or wait for it: ${pids.join(", ")}. Nothing was written. Try again, or end the process that hangs.`,
      { details: { pids } },
    );
  }
}
