/**
 * Makes what was committed durable without stalling the event loop.
 *
 * SQLite commits to the WAL without waiting for the disk (`synchronous = NORMAL`); a commit is acknowledged only after one
 * `fdatasync` of the WAL that began after it. All commits that wait share that one. If the power fails earlier, SQLite
 * recovers the WAL up to its last whole transaction: what is lost was never acknowledged.
 */
import { closeSync, fdatasync, fsyncSync, openSync } from "node:fs";
import { dirname } from "node:path";
import type { SyncFile } from "./options.js";

export class WalSync {
  readonly #file: number;
  readonly #sync: SyncFile;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  /** @param path the database file, which is open */
  constructor(path: string, sync: SyncFile = fdatasync) {
    this.#sync = sync;
    // Created if SQLite has not done so yet; it takes an empty one for what it is.
    this.#file = openSync(`${path}-wal`, "a+");
    syncFolder(dirname(path));
  }

  /** Resolves when all that was written before the call is on the disk. */
  flush(): Promise<void> {
    if (!this.#running) return this.#start();
    // The one that runs may have begun before our write: wait for the next, which everybody who comes now shares.
    this.#next ??= this.#running.then(
      () => this.#start(),
      () => this.#start(),
    );
    return this.#next;
  }

  async close(): Promise<void> {
    await this.#next?.catch(() => {});
    await this.#running?.catch(() => {});
    closeSync(this.#file);
  }

  #start(): Promise<void> {
    this.#next = undefined;
    this.#running = new Promise<void>((resolve, reject) => {
      this.#sync(this.#file, (error) => {
        this.#running = undefined;
        if (error) reject(error);
        else resolve();
      });
    });
    return this.#running;
  }
}

/** The files may be new, and a file whose name is not on the disk is lost with all that was synced to it. */
function syncFolder(folder: string): void {
  // Windows cannot open folders, and keeps their entries safe by itself.
  if (process.platform === "win32") return;
  const handle = openSync(folder, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
