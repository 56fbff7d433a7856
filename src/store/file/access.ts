/**
 * Who may use the contents, and when: reading needs to know what others have added; writing needs the lock, and is done by
 * one at a time within this process too.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { SavepointError } from "../../errors.js";
import type { Contents } from "./contents.js";
import { FileReplaced } from "./data-file.js";
import type { FolderLock } from "./lock.js";

/** How often to look again while somebody puts a file in the place of another. It takes milliseconds. */
const MAX_TRIES = 60;
/** From then on it is looked at without anybody saying so. */
const PATIENCE = 8;

export class Access {
  readonly contents: Contents;
  readonly lock: FolderLock;
  #turn: Promise<unknown> = Promise.resolve();
  #poisoned: unknown;
  #mustLoad = true;

  constructor(contents: Contents, lock: FolderLock) {
    this.contents = contents;
    this.lock = lock;
  }

  /** Does something with the lock held, knowing all that others have written. */
  exclusive<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.#turn.then(async () => {
      if (this.#poisoned) throw this.#refuse();
      const dead = await this.lock.acquire();
      try {
        // Should this process die before everything is read, its own lock says that it must be.
        this.lock.forget(dead);
        if (dead.length > 0) this.#mustLoad = true;
        if (this.#mustLoad) await this.reload();
        else await this.#upToDate(() => {});
        return await work();
      } finally {
        this.lock.release();
      }
    });
    this.#turn = mine.catch(() => {});
    return mine;
  }

  /** Reads, knowing all that was committed before. `last` says that what is missing now is missing for good. */
  async read<T>(work: (last: boolean) => T): Promise<T> {
    if (this.#mustLoad) await this.exclusive(async () => {});
    return this.#upToDate(work);
  }

  /** What this process knows may be wrong: everything is read anew before anything else is read or written. */
  distrust(): void {
    this.#mustLoad = true;
  }

  /** Reads everything anew. The lock is held. */
  async reload(): Promise<void> {
    this.#mustLoad = true;
    await this.contents.load();
    this.#mustLoad = false;
  }

  /** Nobody knows what reached the disk: nothing is written through this handle any more. */
  poison(error: unknown): void {
    this.#poisoned = error;
  }

  /** Resolves when nobody writes. */
  async idle(): Promise<void> {
    await this.#turn;
  }

  async #upToDate<T>(work: (last: boolean) => T): Promise<T> {
    for (let tries = 1; ; tries++) {
      const last = tries >= MAX_TRIES;
      try {
        if (!this.#mustLoad) this.contents.catchUp();
        return work(last);
      } catch (error) {
        if (!(error instanceof FileReplaced) || last) throw error;
        await sleep(tries);
        if (tries > PATIENCE) this.contents.adopt(error);
      }
    }
  }

  #refuse(): SavepointError<"IO_FAILED"> {
    return new SavepointError(
      "IO_FAILED",
      `An earlier write to ${this.contents.url} failed, and nobody knows what of it reached the disk. Open the store again; what was acknowledged is safe.`,
      { cause: this.#poisoned },
    );
  }
}
