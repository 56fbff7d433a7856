/**
 * Makes what was committed durable without stalling the event loop.
 *
 * SQLite commits to the WAL without waiting for the disk (`synchronous = NORMAL`); commits are acknowledged only after an
 * `fdatasync` of the WAL that began after them. If the power fails earlier, SQLite recovers the WAL up to its last whole
 * transaction: what is lost was never acknowledged.
 */
import { closeSync, fdatasync, fsyncSync, openSync } from "node:fs";
import { dirname } from "node:path";
import type { SyncFile } from "./options.js";

export class WalSync {
  readonly #file: number;
  readonly #sync: SyncFile;
  #last: Promise<void> = Promise.resolve();

  /** @param path the database file, whose WAL SQLite has open: a WAL that it had not would be replaced by another */
  constructor(path: string, sync: SyncFile = fdatasync) {
    this.#sync = sync;
    this.#file = openSync(`${path}-wal`, "r+");
    syncFolders(path);
  }

  /** Resolves when all that was written before the call is on the disk. */
  flush(): Promise<void> {
    this.#last = new Promise<void>((resolve, reject) => {
      this.#sync(this.#file, (error) => (error ? reject(error) : resolve()));
    });
    return this.#last;
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
