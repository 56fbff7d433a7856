/**
 * Appends groups of commits and makes them durable: all commits of a group are synced together, and then added to the commit
 * log. If the disk is fast, or syncing is not required, all of this is synchronous, so that the lock is not held while other
 * code blocks the event loop.
 *
 * Another process may take over the lock at any time if this one shows no sign of life. Commits that were complete by then
 * are valid, and later ones are void (fences.ts). A group that lost the lock acquires it again, determines which of its
 * commits are valid, and writes the others again.
 */
import { fdatasync } from "node:fs";
import { promisify } from "node:util";
import { SavepointError } from "../../errors.js";
import { toFileError, runSlicesSync, syncFolder, SyncPace } from "../../util/index.js";
import { createFailureReporter, type DiskOptions } from "../contract/index.js";
import { type SyncFile, testHooksOf } from "../shared/index.js";
import { MAX_ATTEMPTS, type StoreAccess } from "./access.js";
import { CommitGroup, UnexpectedBytesError, type WriteMode } from "./commit-group.js";
import { LockLostError } from "./lock.js";

/** Appends at most one commit to the group. It is called again if that commit is void because the lock was lost. */
export type AppendWork<T> = (group: Pick<CommitGroup, "append">) => T;

/** One piece of work of a group. */
interface Part<T> {
  readonly work: AppendWork<T>;
  /** The result of the work, and the number of its commit: `undefined` without one, 0 once the commit is known to be valid. */
  result?: { readonly value: T; readonly commit: number | undefined } | undefined;
}

/** Whether an error interrupts the entire group, which is then retried. Other errors are failures of one commit. */
export function isInterruption(error: unknown): boolean {
  return error instanceof LockLostError || error instanceof UnexpectedBytesError;
}

export class Appender {
  readonly #access: StoreAccess;
  readonly #mode: WriteMode;
  readonly #report: (message: string, error: unknown) => void;

  /** @param tears whether a commit is written in two parts if there is a probe */
  constructor(access: StoreAccess, options: DiskOptions, tears: boolean) {
    this.#access = access;
    const hooks = testHooksOf(options);
    this.#mode = {
      isUnsynced: options.durability === "process",
      sync: promisify<number, void>((hooks.syncFile ?? fdatasync) as SyncFile),
      maySyncHere: hooks.syncFile === undefined,
      pace: new SyncPace(),
      probe: hooks.probe ?? (() => {}),
      tears: tears && hooks.probe !== undefined,
    };
    this.#report = createFailureReporter(options);
  }

  /** Runs work that appends commits, and makes the commits durable. The lock is held. */
  appendGroup<T>(works: readonly AppendWork<T>[]): T[] | Promise<T[]> {
    return this.#attempt(
      works.map((work) => ({ work })),
      1,
    );
  }

  #attempt<T>(parts: Part<T>[], attempt: number): T[] | Promise<T[]> {
    this.#mode.probe("locked");
    const group = new CommitGroup(this.#access, this.#mode);
    try {
      writeParts(parts, group);
      if (group.entries.length === 0) {
        // A conflict that was found after the lock was lost may not be one.
        this.#access.lock.assertHeld();
      } else {
        this.#mode.probe("written");
        if (!group.trySyncHere()) return this.#syncAndPublish(parts, group, attempt);
        this.#publish(group);
      }
      return valuesOf(parts);
    } catch (error) {
      return this.#retry(parts, group, attempt, error);
    }
  }

  async #syncAndPublish<T>(parts: Part<T>[], group: CommitGroup, attempt: number): Promise<T[]> {
    try {
      await group.sync();
      this.#publish(group);
      return valuesOf(parts);
    } catch (error) {
      return this.#retry(parts, group, attempt, error);
    }
  }

  /** Adds a durable group to the commit log, which makes it visible to other processes. Then it may be acknowledged. */
  #publish(group: CommitGroup): void {
    const { contents, lock } = this.#access;
    this.#mode.probe("synced");
    // The lock is held now, so it was held when the last commit was complete: that commit stays valid.
    lock.assertHeld();
    contents.log.append(group.entries, () => lock.isHeld);
    this.#mode.probe("logged");
    this.#shortenLog();
  }

  /** Retries a group that was interrupted; any other failure rolls the group back and is thrown. */
  #retry<T>(parts: Part<T>[], group: CommitGroup, attempt: number, error: unknown): T[] | Promise<T[]> {
    const { contents, lock } = this.#access;
    const mayRetry = attempt < MAX_ATTEMPTS && !this.#access.isPoisoned;
    if (!lock.isHeld) {
      this.#access.invalidate();
      if (!mayRetry) throw outcomeUnknown(contents.url, error);
      return this.#retryWithNewLock(parts, group, attempt);
    }
    this.#rollBack(group);
    if (!mayRetry || !(error instanceof UnexpectedBytesError)) throw toFileError(error, contents.url, "Writing to");
    discardVoidResults(parts, 0);
    return this.#attempt(parts, attempt + 1);
  }

  async #retryWithNewLock<T>(parts: Part<T>[], { fence }: CommitGroup, attempt: number): Promise<T[]> {
    try {
      discardVoidResults(parts, await this.#access.reacquireLock(fence));
    } catch (error) {
      throw outcomeUnknown(this.#access.contents.url, error);
    }
    return this.#attempt(parts, attempt + 1);
  }

  /** Removes all commits of the group. The lock is held. */
  #rollBack(group: CommitGroup): void {
    this.#access.invalidate();
    group.rollBack();
    try {
      this.#access.recover();
    } catch (error) {
      this.#report("the files could not be read after a failed write; the next read or write retries that", error);
    }
  }

  /** The group is durable and logged by now, so a failure is only reported. */
  #shortenLog(): void {
    const { contents, lock } = this.#access;
    try {
      if (contents.log.isLong) runSlicesSync(contents.rewriteLog(lock), () => lock.refresh());
    } catch (error) {
      if (lock.isHeld) this.#report("the commit log could not be shortened, and was not changed", error);
    }
  }

  /** Syncs files that were written to without syncing. The lock is held. */
  async syncAll(): Promise<void> {
    const { files, handles, folder } = this.#access.contents;
    for (const file of files.values()) {
      if (file.isUnsynced) await handles.using(file, this.#mode.sync);
      file.isUnsynced = false;
    }
    await syncFolder(folder.tapes);
    await syncFolder(folder.path);
  }
}

function writeParts<T>(parts: readonly Part<T>[], group: CommitGroup): void {
  for (const part of parts) {
    if (part.result) continue;
    const before = group.entries.length;
    const value = part.work(group);
    part.result = { value, commit: group.entries[before]?.commit };
  }
}

function valuesOf<T>(parts: readonly Part<T>[]): T[] {
  return parts.map(({ result }) => (result as NonNullable<typeof result>).value);
}

/** Discards the results of parts whose commit is void, because its number is after the last valid one. */
function discardVoidResults(parts: readonly Part<unknown>[], lastValid: number): void {
  for (const part of parts) {
    const { value, commit = Infinity } = part.result ?? {};
    part.result = commit <= lastValid ? { value, commit: 0 } : undefined;
  }
}

/** The lock was lost, and it is unknown which commits of the group are valid, so the group must not be retried. */
function outcomeUnknown(url: string, cause: unknown): SavepointError<"BUSY"> {
  return new SavepointError(
    "BUSY",
    `Writing to ${url} failed: another process took over its lock because this process showed no sign of life, and the lock could not be acquired again. It is unknown whether the last save was stored: read it, and save again if it was not.`,
    { cause },
  );
}
