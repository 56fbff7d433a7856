/**
 * Makes commits durable without blocking the event loop.
 *
 * SQLite commits to the WAL without waiting for the disk (`synchronous = NORMAL`). A commit is acknowledged only after an
 * `fdatasync` of the WAL that began after it. If the power fails earlier, SQLite recovers the WAL up to its last complete
 * transaction: commits that are lost were never acknowledged.
 *
 * A single commit is synced on this thread if the disk has been fast: see sync-pace.ts.
 */
import { closeSync, fdatasync, fdatasyncSync, fstatSync, openSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import type { SyncFile } from "../shared/index.js";
import { syncFolderSync, SyncPace } from "../../util/index.js";

/** The bytes of a page in the WAL, and of the header before the first one. */
const FRAME_BYTES = 4096 + 24;
const HEADER_BYTES = 32;
/** Space is preallocated if there is less than this many pages. */
const MIN_FREE_PAGES = 64;
const PREALLOCATION = Buffer.alloc(128 * FRAME_BYTES);

export class WalSync {
  readonly #file: number;
  readonly #sync: SyncFile;
  readonly #maySyncOnThread: boolean;
  #last: Promise<void> = Promise.resolve();
  readonly #pace = new SyncPace();
  /** The pages of the WAL, if the next transaction should preallocate space behind them. */
  #pages: number | undefined;

  /** @param path the database file. SQLite must have its WAL open; otherwise the WAL could be replaced by another file */
  constructor(path: string, sync?: SyncFile) {
    this.#sync = sync ?? fdatasync;
    this.#maySyncOnThread = sync === undefined;
    this.#file = openSync(`${path}-wal`, "r+");
    syncFolders(path);
  }

  /**
   * Resolves when everything that was written before the call is on the disk.
   *
   * @param alone whether only one commit waits for it; if so, it may block the event loop if the disk is fast
   */
  async flush(alone: boolean): Promise<void> {
    if (alone && this.isFast) return this.flushNow();
    const start = performance.now();
    await (this.#last = this.#flushAsync());
    this.#pace.record(performance.now() - start);
  }

  /** Whether the disk is so fast that a sync may block the event loop. */
  get isFast(): boolean {
    return this.#maySyncOnThread && this.#pace.isFast;
  }

  /** Like {@link flush}, but blocks the event loop. */
  flushNow(): void {
    const start = performance.now();
    fdatasyncSync(this.#file);
    this.#pace.record(performance.now() - start);
  }

  #flushAsync(): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      this.#sync(this.#file, (error) => (error ? reject(error) : resolve()));
    });
  }

  /** Makes the next transaction preallocate space in the WAL, which has this many pages. */
  requestSpace(pages: number): void {
    this.#pages = pages;
  }

  /**
   * Preallocates the requested space in the WAL behind its last page, if there is little left: syncing a file that grows costs about
   * twice as much, because the disk must write its length as well. To be called inside a write transaction: no other process writes to
   * the WAL then. Only bytes behind the end of the file are written.
   */
  preallocate(): void {
    const pages = this.#pages;
    if (pages === undefined) return;
    this.#pages = undefined;
    try {
      const { size } = fstatSync(this.#file);
      // Zeros are not a valid frame: recovery of the WAL stops at them.
      if (pages > 0 && size < HEADER_BYTES + (pages + MIN_FREE_PAGES) * FRAME_BYTES) {
        writeSync(this.#file, PREALLOCATION, 0, PREALLOCATION.length, size);
      }
    } catch {
      // The disk may be full. If there is no space for the transaction itself, the transaction fails and reports it.
    }
  }

  async close(): Promise<void> {
    // The caller of flush() gets its failure.
    await this.#last.catch(() => {});
    closeSync(this.#file);
  }
}

/**
 * Syncs all folders above a file, once. Any of them may be new, and a new file is lost in a power cut if its entry in the folder was
 * not synced.
 */
function syncFolders(path: string): void {
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    try {
      syncFolderSync(folder);
    } catch (error) {
      // We did not create a folder that we may not read.
      if ((error as NodeJS.ErrnoException).syscall === "open") return;
      throw error;
    }
    if (dirname(folder) === folder) return;
  }
}
