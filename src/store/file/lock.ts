/**
 * The lock of a store: only its holder may write.
 *
 * A process that wants the lock puts a file with a unique name into a folder, and holds the lock if there is no other file.
 * If two processes do so at the same time, at least one sees the other, so two never hold the lock. The one that came first
 * keeps its file and waits, the others remove theirs.
 *
 * A holder refreshes its file while it works. The file of a dead process does not count. If a process has shown no sign of
 * life for a while, because it is frozen, blocks its event loop, or runs on a machine that is gone, its lock is taken over:
 * the file is renamed, which its owner notices before it acknowledges anything, and the new holder adds a fence that makes
 * later writes of the old one void (fences.ts). The files of dead processes and renamed files stay until that is done.
 */
import { closeSync, existsSync, openSync, readdirSync, renameSync, statSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { SavepointError } from "../../errors.js";
import { isMissingFileError } from "../../util/index.js";
import {
  removeOwnLock,
  fencedName,
  isAbandoned,
  isPendingRemoval,
  isLockName,
  newLockName,
  pidOf,
  removeFile,
  retryRemovals,
} from "./lock-files.js";

/** How long others wait for a sign of life, in milliseconds: half of the busy timeout, within these limits. */
const MAX_SILENCE = 5_000;
const MIN_SILENCE = 2_000;
/** How many signs of life a holder shows within the time that others wait for one. */
const SIGNS = 4;
/** How long to wait before looking again. */
const SOON = 1;
const LATER = 4;
/** The most that the time between two looks counts as waiting: this process may have been frozen itself. */
const MAX_STEP = 100;

/** How long to wait for a lock. */
export interface LockOptions {
  /** How long to wait for a holder that shows no sign of life, before `BUSY`. */
  readonly timeout: number;
  /** How long a holder may show no sign of life before the lock is taken over; tests make it short. */
  readonly silence?: number | undefined;
  readonly report: (message: string, error: unknown) => void;
}

/** The lock was taken over by another process: nothing may be written. The message is for callers, if retries fail as well. */
export class LockLostError extends SavepointError<"BUSY"> {
  constructor(url: string) {
    super(
      "BUSY",
      `The lock of ${url} was taken over by another process, several times in a row, because this one showed no sign of life. Nothing was written; keep the event loop free, and try again.`,
    );
  }
}

/** The last sign of life of another process, for how long it has been known, and when the file was last checked. */
interface Sign {
  time: number;
  silence: number;
  lookedAt: number;
}

export class FolderLock {
  readonly #folder: string;
  readonly #url: string;
  readonly #timeout: number;
  readonly #silence: number;
  readonly #report: (message: string, error: unknown) => void;
  readonly #signs = new Map<string, Sign>();
  /** Files of others that have been dealt with and could not be removed. */
  readonly #settled = new Set<string>();
  #own: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  #signedAt = 0;
  #isReported = false;

  constructor(folder: string, url: string, { timeout, silence, report }: LockOptions) {
    this.#folder = folder;
    this.#url = url;
    this.#timeout = timeout;
    this.#silence = silence ?? Math.min(MAX_SILENCE, Math.max(MIN_SILENCE, timeout / 2));
    this.#report = report;
  }

  /**
   * Waits for the lock, and runs work with it held. If the work is synchronous, the lock is released before any other code of
   * this process runs.
   *
   * @param work gets the files of processes that died with the lock or lost it: see {@link removeAbandoned}
   */
  async hold<T>(work: (left: readonly string[]) => T | Promise<T>): Promise<T> {
    let result: T | Promise<T> | undefined;
    await this.acquire((left) => {
      result = work(left);
      if (!(result instanceof Promise)) this.release();
    });
    try {
      return await (result as T | Promise<T>);
    } finally {
      this.release();
    }
  }

  /**
   * Waits for the lock. `BUSY` if another process has it and shows no sign of life for too long.
   *
   * @param begin called synchronously as soon as the lock is held; if it throws, the lock is released
   */
  async acquire(begin: (left: readonly string[]) => void): Promise<void> {
    const began = Date.now();
    /** How long each of the others had been silent when this began. */
    const before = new Map<string, number>();
    let name: string | undefined;
    try {
      for (;;) {
        retryRemovals(this.#folder);
        for (const other of this.#settled) if (removeFile(this.#path(other)) === undefined) this.#settled.delete(other);
        // A process that waits must show signs of life too, or others may think it is dead.
        if (name === undefined || !existsSync(this.#path(name))) name = this.#create(began);
        const there = this.#files();
        const others = there.filter((other) => other !== name);
        const living = others.filter((other) => !this.#settled.has(other) && !isAbandoned(other));
        const waited = living.map((other) => {
          const silence = this.#watch(other);
          const start = Math.min(before.get(other) ?? silence, silence);
          before.set(other, start);
          return silence - start;
        });
        const active = living.filter((other) => (this.#signs.get(other)?.silence ?? 0) <= this.#silence);
        const isFree = active.length === 0 && there.includes(name);
        if (isFree && living.every((other) => this.#fenceOff(other))) {
          this.#own = name;
          this.#signs.clear();
          begin(others.length === 0 ? [] : this.#abandoned());
          if (this.#own !== undefined) this.#keepAlive();
          return;
        }
        const isFirst = active.every((other) => (name as string) < other);
        if (isFirst) this.#sign(name);
        else {
          this.#discard(name);
          name = undefined;
        }
        if (waited.some((time) => time > this.#timeout)) throw this.#busy(living);
        await sleep(isFirst ? SOON : SOON + Math.random() * LATER);
      }
    } catch (error) {
      this.release();
      if (name !== undefined) this.#discard(name);
      throw error;
    }
  }

  /** Lets others write. What was written is safe, even if the file cannot be removed now. */
  release(): void {
    clearInterval(this.#timer);
    const own = this.#own;
    this.#own = undefined;
    if (own !== undefined && this.#discard(own)) this.#isReported = false;
  }

  /** Removes the files of processes that died with the lock or lost it: their writes have been dealt with. */
  removeAbandoned(left: readonly string[]): void {
    for (const name of left) {
      const error = removeFile(this.#path(name));
      if (error === undefined) continue;
      this.#settled.add(name);
      this.#reportOnce(error);
    }
  }

  /** Is it ours? Another process may have taken it over. */
  get isHeld(): boolean {
    return this.#own !== undefined && existsSync(this.#path(this.#own));
  }

  /** Throws {@link LockLostError} if the lock is not held: then nothing may be written. */
  assertHeld(): void {
    if (!this.isHeld) throw new LockLostError(this.#url);
  }

  /** Shows that this process is alive, during work that does not yield to the event loop. */
  refresh(): void {
    if (this.#own !== undefined) this.#sign(this.#own);
  }

  /**
   * Whether another process may be writing, and a mark that changes when the lock is taken or released. File systems
   * with coarse times (Linux before 6.13: up to 10 ms) may give the same mark for several changes in a row.
   */
  observe(): { isFree: boolean; mark: string } {
    const { mtimeNs } = statSync(this.#folder, { bigint: true });
    const isFree = this.#files().every((name) => this.#settled.has(name) || isAbandoned(name));
    return { isFree, mark: String(mtimeNs) };
  }

  #path(name: string): string {
    return join(this.#folder, name);
  }

  #create(began: number): string {
    const name = newLockName(began);
    closeSync(openSync(this.#path(name), "wx"));
    this.#signedAt = performance.now();
    return name;
  }

  /** The files that may belong to the holder, or to a process that waits for the lock. */
  #files(): string[] {
    return readdirSync(this.#folder).filter((name) => isLockName(name) && !isPendingRemoval(this.#path(name)));
  }

  #abandoned(): string[] {
    return this.#files().filter((name) => !this.#settled.has(name) && isAbandoned(name));
  }

  /** How long another process has shown no sign of life, by the clock of this machine: clocks of two machines differ. */
  #watch(name: string): number {
    const time = statSync(this.#path(name), { throwIfNoEntry: false })?.mtimeMs ?? 0;
    const now = performance.now();
    const known = this.#signs.get(name);
    if (known?.time !== time) {
      this.#signs.set(name, { time, silence: 0, lookedAt: now });
      return 0;
    }
    known.silence += Math.min(now - known.lookedAt, MAX_STEP);
    known.lookedAt = now;
    return known.silence;
  }

  /** Takes the lock from another process. Returns whether that succeeded. */
  #fenceOff(name: string): boolean {
    try {
      renameSync(this.#path(name), this.#path(fencedName(name)));
    } catch (error) {
      // The holder has woken up and released the lock.
      if (isMissingFileError(error)) return true;
      this.#reportOnce(error);
      return false;
    }
    return true;
  }

  #keepAlive(): void {
    clearInterval(this.#timer);
    this.#timer = setInterval(() => this.refresh(), this.#silence / SIGNS).unref();
  }

  #sign(name: string): void {
    if (performance.now() - this.#signedAt < this.#silence / SIGNS / 2) return;
    this.#signedAt = performance.now();
    const now = new Date();
    try {
      utimesSync(this.#path(name), now, now);
    } catch (error) {
      // If another process has taken over the lock, this is noticed before the next write.
      if (!isMissingFileError(error)) this.#reportOnce(error);
    }
  }

  /** Removes a file of this process, now or later. Returns whether it is gone. */
  #discard(name: string): boolean {
    const error = removeOwnLock(this.#path(name));
    if (error !== undefined) this.#reportOnce(error);
    return error === undefined;
  }

  #reportOnce(error: unknown): void {
    if (this.#isReported) return;
    this.#isReported = true;
    this.#report(
      `a file in the lock folder of ${this.#url} could not be changed or removed; this is tried again, and until it succeeds other processes wait`,
      error,
    );
  }

  #busy(living: readonly string[]): SavepointError<"BUSY"> {
    const pids = living.map(pidOf);
    return new SavepointError(
      "BUSY",
      `Writing to ${this.#url} waited ${this.#timeout} ms for its lock, which process ${pids.join(", ")} holds. Nothing was written; try again, or end that process if it hangs.`,
      { details: { pids } },
    );
  }
}
