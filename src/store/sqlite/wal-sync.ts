/**
 * Makes what was committed durable without stalling the event loop.
 *
 * SQLite commits to the WAL without waiting for the disk (`synchronous = NORMAL`); commits are acknowledged only after an
 * `fdatasync` of the WAL that began after them. If the power fails earlier, SQLite recovers the WAL up to its last whole
 * transaction: what is lost was never acknowledged.
 *
 * A single commit is synced on this thread if the disk has been fast: see sync-pace.ts.
 */
import { closeSync, fdatasync, fdatasyncSync, fstatSync, fsyncSync, openSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import type { SyncFile } from "../shared/index.js";
import { SyncPace } from "../../util/index.js";

/** Bytes of a page in the WAL, and before the first one. */
const FRAME = 4096 + 24;
const HEADER = 32;
/** Pages for which there should be room. */
const LITTLE = 64;
const ROOM = Buffer.alloc(128 * FRAME);

export class WalSync {
  readonly #file: number;
  readonly #sync: SyncFile;
  readonly #maySyncHere: boolean;
  #last: Promise<void> = Promise.resolve();
  readonly #pace = new SyncPace();

  /** @param path the database file, whose WAL SQLite has open: a WAL that it had not would be replaced by another */
  constructor(path: string, sync?: SyncFile) {
    this.#sync = sync ?? fdatasync;
    this.#maySyncHere = sync === undefined;
    this.#file = openSync(`${path}-wal`, "r+");
    syncFolders(path);
  }

  /**
   * Resolves when all that was written before the call is on the disk.
   *
   * @param alone is nobody else waiting for anything meanwhile, as far as we know?
   */
  async flush(alone: boolean): Promise<void> {
    const start = performance.now();
    if (alone && this.#maySyncHere && this.#pace.isFast) fdatasyncSync(this.#file);
    else await (this.#last = this.#flushAside());
    this.#pace.record(performance.now() - start);
  }

  #flushAside(): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      this.#sync(this.#file, (error) => (error ? reject(error) : resolve()));
    });
  }

  /**
   * Makes room in the WAL behind its last page, if there is little left: syncing a file that grows costs the disk about
   * twice as much, because its length has to be written as well. To be called inside a write transaction: nobody else
   * can write there then, and only what is behind the end of the file is written.
   *
   * @param pages that it has
   */
  preallocate(pages: number): void {
    const { size } = fstatSync(this.#file);
    // Zeros are no frames: whoever recovers the WAL stops at them.
    if (pages > 0 && size < HEADER + (pages + LITTLE) * FRAME) writeSync(this.#file, ROOM, 0, ROOM.length, size);
  }

  async close(): Promise<void> {
    // Whoever waits for it hears of its failure.
    await this.#last.catch(() => {});
    closeSync(this.#file);
  }
}

/**
 * Files and folders may be new, and what is not in its folder on the disk is lost with all that was synced to it. All
 * folders upwards are synced, because nobody knows which of them were made just now; it takes a moment, once.
 */
function syncFolders(path: string): void {
  // Windows cannot open folders, and keeps their entries safe by itself.
  if (process.platform === "win32") return;
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    let handle: number;
    try {
      handle = openSync(folder, "r");
    } catch {
      // A folder that we may not read is not one that we made.
      return;
    }
    try {
      fsyncSync(handle);
    } finally {
      closeSync(handle);
    }
    if (dirname(folder) === folder) return;
  }
}
