/**
 * Appends commits to files, in groups: all that a group has written is synced together, and then noted in the list of
 * commits. If that fails, the files are cut back to their previous sizes. If the disk is fast, or syncing is not required,
 * all of it is done synchronously, so that a process does not keep the lock while other code blocks its event loop.
 *
 * Another process may take over the lock at any time, if this one shows no sign of life. Commits that were
 * complete by then are valid, and later ones are void (fences.ts). So a group that lost the lock takes it again, finds out
 * which of its commits are valid, and writes the others again.
 */
import { closeSync, fdatasync, fdatasyncSync, fstatSync, openSync, rmSync, statSync, truncateSync } from "node:fs";
import { promisify } from "node:util";
import { SavepointError } from "../../errors.js";
import { createFailureReporter, type DiskOptions } from "../contract/index.js";
import { type SyncFile, testHooksOf } from "../shared/index.js";
import { type StoreAccess, MAX_ATTEMPTS } from "./access.js";
import type { LocatedLine } from "./catalog.js";
import { type DataFile, FileReplacedError, headerLine, newDataFile } from "./data-file.js";
import { toFileError, runSlicesSync, syncFolder, SyncPace, writeBytes } from "../../util/index.js";
import { type LineHead, type CommitFooter, summarizeHeads, encodeLine, encodeValueLine } from "./lines.js";
import { LockLostError } from "./lock.js";
import type { LogEntry } from "./log-lines.js";

/** A line that is to be written. */
export interface NewLine {
  readonly head: LineHead;
  readonly value?: string;
}

/** What a group has written so far. */
interface Group {
  /** The newest fence that was known when it began. */
  readonly fence: number;
  readonly entries: LogEntry[];
  /** The sizes that files had before; `undefined` for those that were not there. */
  readonly before: Map<DataFile, number | undefined>;
}

/**
 * A part of a group, which appends at most one commit. Its work is repeated if that commit is void because the lock was lost
 * meanwhile.
 */
interface Part<T> {
  readonly work: () => T;
  /** The value that the work returned, and the number of its commit: `undefined` without one, 0 once known to be valid. */
  result?: { readonly value: T; readonly commit: number | undefined } | undefined;
}

/** A process that had lost the lock has appended to a file, or another file has taken its place. */
export class UnexpectedBytesError extends Error {}

/** Must the group be restarted? Then the error is not a failure of one of its commits. */
export function isInterruption(error: unknown): boolean {
  return error instanceof LockLostError || error instanceof UnexpectedBytesError;
}

export class Appender {
  readonly #access: StoreAccess;
  readonly #soft: boolean;
  readonly #sync: (handle: number) => Promise<void>;
  readonly #maySyncHere: boolean;
  readonly #pace = new SyncPace();
  readonly #probe: (point: string) => void;
  readonly #tears: boolean;
  readonly #report: (message: string, error: unknown) => void;
  #group: Group | undefined;

  /** @param tears whether a commit is written in two parts if there is a probe */
  constructor(access: StoreAccess, options: DiskOptions, tears: boolean) {
    this.#access = access;
    this.#soft = options.durability === "process";
    const hooks = testHooksOf(options);
    this.#sync = promisify<number, void>((hooks.syncFile ?? fdatasync) as SyncFile);
    this.#maySyncHere = hooks.syncFile === undefined;
    this.#probe = hooks.probe ?? (() => {});
    this.#tears = tears && hooks.probe !== undefined;
    this.#report = createFailureReporter(options);
  }

  /**
   * Runs work that appends, and makes its commits durable. The lock is held.
   *
   * @param works each appends at most one commit; they may be run again, if the lock is lost meanwhile
   */
  group<T>(works: readonly (() => T)[]): T[] | Promise<T[]> {
    return this.#attempt(
      works.map((work) => ({ work })),
      1,
    );
  }

  #attempt<T>(parts: Part<T>[], attempt: number): T[] | Promise<T[]> {
    this.#probe("locked");
    const group: Group = { fence: this.#access.contents.fences.current, entries: [], before: new Map() };
    try {
      this.#run(parts, group);
      if (group.entries.length === 0) {
        // A conflict that was found after the lock was lost may not be one.
        this.#access.lock.assertHeld();
        return valuesOf(parts);
      }
      this.#probe("written");
      if (this.#syncHere(group)) {
        this.#finish(group);
        return valuesOf(parts);
      }
    } catch (error) {
      return this.#resume(parts, group, attempt, error);
    }
    return this.#finishAside(parts, group, attempt);
  }

  async #finishAside<T>(parts: Part<T>[], group: Group, attempt: number): Promise<T[]> {
    try {
      await this.#syncAside(group);
      this.#finish(group);
      return valuesOf(parts);
    } catch (error) {
      return this.#resume(parts, group, attempt, error);
    }
  }

  #run<T>(parts: readonly Part<T>[], group: Group): void {
    this.#group = group;
    try {
      for (const part of parts) {
        if (part.result) continue;
        const before = group.entries.length;
        const value = part.work();
        part.result = { value, commit: group.entries[before]?.commit };
      }
    } finally {
      this.#group = undefined;
    }
  }

  /** The group is durable: it is shown to other processes, and may be acknowledged. */
  #finish(group: Group): void {
    const { contents, lock } = this.#access;
    this.#probe("synced");
    // The lock is held now, so it was held when the last commit was complete: that commit stays valid.
    lock.assertHeld();
    contents.log.append(group.entries, () => lock.isHeld);
    this.#probe("logged");
    this.#shortenLog();
  }

  /** Retries if the lock was lost or a file had unexpected bytes at its end; otherwise takes the group back. */
  #resume<T>(parts: Part<T>[], group: Group, attempt: number, error: unknown): T[] | Promise<T[]> {
    const { contents, lock } = this.#access;
    const isAgain = attempt < MAX_ATTEMPTS && !this.#access.isPoisoned;
    if (!lock.isHeld) {
      this.#access.invalidate();
      if (!isAgain) throw outcomeUnknown(contents.url, error);
      return this.#reclaim(parts, group, attempt);
    }
    this.#takeBack(group);
    if (!isAgain || !(error instanceof UnexpectedBytesError)) throw toFileError(error, contents.url, "Writing to");
    keepSettled(parts, 0);
    return this.#attempt(parts, attempt + 1);
  }

  async #reclaim<T>(parts: Part<T>[], { fence }: Group, attempt: number): Promise<T[]> {
    try {
      keepSettled(parts, await this.#access.reacquireLock(fence));
    } catch (error) {
      throw outcomeUnknown(this.#access.contents.url, error);
    }
    return this.#attempt(parts, attempt + 1);
  }

  /** What was written is safe by now, whatever becomes of this. */
  #shortenLog(): void {
    const { contents, lock } = this.#access;
    try {
      if (contents.log.isLong) runSlicesSync(contents.rewriteLog(lock), () => lock.refresh());
    } catch (error) {
      if (lock.isHeld) this.#report("the list of commits could not be shortened, and stays as it is", error);
    }
  }

  /** Appends a commit to a file. */
  append(name: string, at: number, lines: readonly NewLine[]): void {
    const { contents, lock } = this.#access;
    const group = this.#group;
    if (!group) throw new Error("Nothing is appended outside of a group.");
    const file = contents.files.get(name) ?? newDataFile(name, contents.folder.file(name), at);
    const { bytes, found, seal } = format(file, { commit: at, ...contents.writer }, lines);
    const before = file.size === 0 ? undefined : file.size;
    lock.assertHeld();
    this.#write(file, bytes, () => {
      if (!group.before.has(file)) group.before.set(file, before);
    });
    file.size += bytes.length;
    contents.files.set(name, file);
    for (const each of found) contents.catalog.apply(each);
    [file.lastCommit, file.soft] = [at, this.#soft];
    const { generation, size } = file;
    group.entries.push({
      file: name,
      generation,
      size,
      ...seal,
      ...(this.#soft && { soft: true as const }),
    });
  }

  /** Syncs files that were written to without it. The lock is held. */
  async syncEverything(): Promise<void> {
    const { files, handles, folder } = this.#access.contents;
    for (const file of files.values()) {
      if (file.soft) await handles.using(file, this.#sync);
      file.soft = false;
    }
    await syncFolder(folder.tapes);
    await syncFolder(folder.path);
  }

  /** @param onWritten called once all is written, which may have to be taken back */
  #write(file: DataFile, bytes: Buffer, onWritten: () => void): void {
    const { lock } = this.#access;
    const handle = this.#open(file);
    expectUnchanged(handle, file);
    this.#probe("checked");
    try {
      if (this.#tears) {
        const half = bytes.length >> 1;
        writeBytes(handle, bytes.subarray(0, half));
        this.#probe("torn");
        lock.assertHeld();
        writeBytes(handle, bytes.subarray(half));
      } else writeBytes(handle, bytes);
    } catch (error) {
      // A full disk may have stored a part of it.
      if (lock.isHeld) this.#cut(file, file.size);
      throw error;
    }
    onWritten();
    // Even though the lock was lost, the commit is valid if it was complete in time: that is found out later.
    if (fstatSync(handle).size !== file.size + bytes.length && lock.isHeld) {
      throw new UnexpectedBytesError(`${file.path} has grown meanwhile`);
    }
  }

  #open(file: DataFile): number {
    try {
      // But not a file that another process has created meanwhile.
      if (file.size === 0) closeSync(openSync(file.path, "wx"));
      return this.#access.contents.handles.of(file);
    } catch (error) {
      const isUnknown = error instanceof FileReplacedError || (error as NodeJS.ErrnoException).code === "EEXIST";
      throw isUnknown ? new UnexpectedBytesError(`${file.path} is not what it was`, { cause: error }) : error;
    }
  }

  /** Syncs the files of a group on this thread, if that is as fast as on another one. Returns whether they are durable. */
  #syncHere({ before }: Group): boolean {
    if (this.#soft) return true;
    const [file, ...others] = before.keys();
    if (!file || others.length > 0 || before.get(file) === undefined) return false;
    if (!this.#maySyncHere || !this.#pace.isFast) return false;
    const start = performance.now();
    try {
      fdatasyncSync(this.#access.contents.handles.of(file));
    } catch (error) {
      this.#access.poison(error);
      throw error;
    }
    this.#pace.record(performance.now() - start);
    return true;
  }

  async #syncAside({ before }: Group): Promise<void> {
    const { folder, handles } = this.#access.contents;
    const folders = new Set<string>();
    for (const [file, size] of before) if (size === undefined) folders.add(folder.folderOf(file.name));
    const start = performance.now();
    try {
      await Promise.all([
        ...[...before.keys()].map((file) => handles.using(file, this.#sync)),
        ...[...folders].map(syncFolder),
      ]);
    } catch (error) {
      // A second sync does not bring back what a failed one has lost.
      this.#access.poison(error);
      throw error;
    }
    this.#pace.record(performance.now() - start);
  }

  /** Takes the group back, so that none of its commits is valid. The lock is held. */
  #takeBack({ before }: Group): void {
    this.#access.invalidate();
    for (const [file, size] of before) this.#cut(file, size ?? 0);
    try {
      this.#access.recover();
    } catch (error) {
      this.#report(
        "the files could not be read again after a failed write; the next read or write tries that again",
        error,
      );
    }
  }

  #cut(file: DataFile, size: number): void {
    const { handles } = this.#access.contents;
    try {
      if (size > 0) truncateSync(file.path, size);
      else {
        handles.close(file);
        rmSync(file.path, { force: true });
      }
    } catch (error) {
      this.#access.poison(error);
    }
  }
}

function valuesOf<T>(parts: readonly Part<T>[]): T[] {
  return parts.map(({ result }) => (result as NonNullable<typeof result>).value);
}

/** Forgets the results of all parts whose commit is not valid, because its number is after the last valid one. */
function keepSettled(parts: readonly Part<unknown>[], last: number): void {
  for (const part of parts) {
    const { value, commit = Infinity } = part.result ?? {};
    part.result = commit <= last ? { value, commit: 0 } : undefined;
  }
}

/** The lock was lost, and it cannot be found out which commits of the group are valid. So the group must not be retried. */
function outcomeUnknown(url: string, cause: unknown): SavepointError<"BUSY"> {
  return new SavepointError(
    "BUSY",
    `While ${url} was written to, another process took over its lock, because this one showed no sign of life, and the lock could not be taken back. It is unknown whether the last save is stored: read it, and save again if it is not.`,
    { cause },
  );
}

/** Throws unless the open file still has its name, and is as long as it was. */
function expectUnchanged(handle: number, file: DataFile): void {
  const { ino, size } = fstatSync(handle);
  if (ino === statSync(file.path, { throwIfNoEntry: false })?.ino && size === file.size) return;
  throw new UnexpectedBytesError(`${file.path} has ${size} bytes, and should have ${file.size}`);
}

/** The bytes of a commit, and where its lines are going to be. */
function format(
  file: DataFile,
  writer: Omit<CommitFooter, "holds">,
  lines: readonly NewLine[],
): { bytes: Buffer; found: LocatedLine[]; seal: CommitFooter } {
  const texts: string[] = file.size === 0 ? [headerLine(file.name, file.generation)] : [];
  let offset = file.size + (file.size === 0 ? Buffer.byteLength(texts[0] as string) : 0);
  const found = lines.map(({ head, value }) => {
    const text = value === undefined ? encodeLine(head) : encodeValueLine(head, value);
    const length = Buffer.byteLength(text);
    texts.push(text);
    offset += length;
    return { file, offset: offset - length, length, head };
  });
  const seal: CommitFooter = { ...writer, holds: summarizeHeads(lines.map(({ head }) => head)) };
  texts.push(encodeLine(seal));
  return { bytes: Buffer.from(texts.join("")), found, seal };
}
