/**
 * One attempt to write a group of commits: the commits are appended to their files, and then synced together. If that
 * fails, the files are cut back to their previous sizes.
 */
import { closeSync, fdatasyncSync, fstatSync, ftruncateSync, lstatSync, rmSync } from "node:fs";
import { createFile, syncFolder, type SyncPace, writeBytes } from "../../util/index.js";
import type { StoreAccess } from "./access.js";
import type { LocatedLine } from "./catalog.js";
import type { LogEntry } from "./commit-log.js";
import { type DataFile, headerLine, newDataFile, openForAppend, withHandle } from "./data-file.js";
import { FileReplacedError } from "./file-handles.js";
import { type CommitFooter, encodeLine, encodeValueLine, type LineHead, summarizeHeads } from "./lines.js";

/** A line to write. */
export interface NewLine {
  readonly head: LineHead;
  readonly value?: string;
}

/** How commits are written. */
export interface WriteMode {
  /** Whether commits are acknowledged before they are on the disk. */
  readonly isUnsynced: boolean;
  readonly sync: (handle: number) => Promise<void>;
  /** Whether syncing may block this thread, if the disk is fast. */
  readonly maySyncHere: boolean;
  readonly pace: SyncPace;
  readonly probe: (point: string) => void;
  /** Whether a commit is written in two parts, with a probe point in between. */
  readonly tears: boolean;
}

/**
 * A file has unexpected bytes at its end, or was replaced: a process that lost the lock has written to it. The group can be
 * written again after the files have been recovered.
 */
export class UnexpectedBytesError extends Error {}

export class CommitGroup {
  readonly #access: StoreAccess;
  readonly #mode: WriteMode;
  /** The newest fence that was known when the group began. */
  readonly fence: number;
  /** The log entries of the commits that were written. */
  readonly entries: LogEntry[] = [];
  /** The previous sizes of files that were written to; `undefined` for new files. */
  readonly #sizesBefore = new Map<DataFile, number | undefined>();

  constructor(access: StoreAccess, mode: WriteMode) {
    this.#access = access;
    this.#mode = mode;
    this.fence = access.contents.fences.current;
  }

  /** Appends a commit to a file, and applies it to the catalog. */
  append(name: string, at: number, lines: readonly NewLine[]): void {
    const { contents, lock } = this.#access;
    const { isUnsynced } = this.#mode;
    const file = contents.files.get(name) ?? newDataFile(name, contents.folder.file(name), at);
    const { bytes, located, footer } = encodeCommit(file, { commit: at, ...contents.writer }, lines);
    lock.assertHeld();
    this.#write(file, bytes);
    file.size += bytes.length;
    contents.files.set(name, file);
    for (const line of located) contents.catalog.apply(line);
    [file.lastCommit, file.isUnsynced] = [at, isUnsynced];
    const { generation, size } = file;
    this.entries.push({ file: name, generation, size, ...footer, ...(isUnsynced && { soft: true as const }) });
  }

  #write(file: DataFile, bytes: Buffer): void {
    const { lock } = this.#access;
    const { probe, tears } = this.#mode;
    const sizeBefore = file.size === 0 ? undefined : file.size;
    const handle = this.#open(file);
    expectUnchanged(handle, file);
    probe("checked");
    try {
      if (tears) {
        const half = bytes.length >> 1;
        writeBytes(handle, bytes.subarray(0, half));
        probe("torn");
        lock.assertHeld();
        writeBytes(handle, bytes.subarray(half));
      } else writeBytes(handle, bytes);
    } catch (error) {
      // A full disk may have stored a part of it.
      if (lock.isHeld) this.#cut(file, file.size);
      throw error;
    }
    if (!this.#sizesBefore.has(file)) this.#sizesBefore.set(file, sizeBefore);
    // If the lock was lost, the commit is still valid if it was complete in time. That is determined later.
    if (fstatSync(handle).size !== file.size + bytes.length && lock.isHeld) {
      throw new UnexpectedBytesError(`Another process has appended to ${file.path}.`);
    }
  }

  #open(file: DataFile): number {
    try {
      // Fails if another process has created the file meanwhile.
      if (file.size === 0) closeSync(createFile(file.path, this.#access.contents.folder.mode));
      return this.#access.contents.handles.of(file);
    } catch (error) {
      const isReplaced = error instanceof FileReplacedError || (error as NodeJS.ErrnoException).code === "EEXIST";
      throw isReplaced
        ? new UnexpectedBytesError(`Another process has created or replaced ${file.path}.`, { cause: error })
        : error;
    }
  }

  /** Syncs the group on this thread, if that is as fast as on another one. Returns whether the group is durable. */
  trySyncHere(): boolean {
    const { isUnsynced, maySyncHere, pace } = this.#mode;
    if (isUnsynced) return true;
    const [file, ...others] = this.#sizesBefore.keys();
    if (!file || others.length > 0 || this.#sizesBefore.get(file) === undefined) return false;
    if (!maySyncHere || !pace.isFast) return false;
    const start = performance.now();
    try {
      fdatasyncSync(this.#access.contents.handles.of(file));
    } catch (error) {
      this.#access.poison(error);
      throw error;
    }
    pace.record(performance.now() - start);
    return true;
  }

  /** Syncs the group on other threads. */
  async sync(): Promise<void> {
    const { folder, handles } = this.#access.contents;
    const folders = new Set<string>();
    for (const [file, size] of this.#sizesBefore) if (size === undefined) folders.add(folder.folderOf(file.name));
    const start = performance.now();
    try {
      await Promise.all([
        ...[...this.#sizesBefore.keys()].map((file) => handles.using(file, this.#mode.sync)),
        ...[...folders].map(syncFolder),
      ]);
    } catch (error) {
      // A second sync does not bring back what a failed one has lost.
      this.#access.poison(error);
      throw error;
    }
    this.#mode.pace.record(performance.now() - start);
  }

  /** Removes all commits of the group from the files. The lock is held. */
  rollBack(): void {
    for (const [file, size] of this.#sizesBefore) this.#cut(file, size ?? 0);
  }

  #cut(file: DataFile, size: number): void {
    try {
      if (size > 0) withHandle(openForAppend(file.path), (handle) => ftruncateSync(handle, size));
      else {
        this.#access.contents.handles.close(file);
        rmSync(file.path, { force: true });
      }
    } catch (error) {
      this.#access.poison(error);
    }
  }
}

/** Throws unless the open file still has its name and its known size. */
function expectUnchanged(handle: number, file: DataFile): void {
  const { ino, size } = fstatSync(handle);
  if (ino === lstatSync(file.path, { throwIfNoEntry: false })?.ino && size === file.size) return;
  throw new UnexpectedBytesError(`${file.path} has ${size} bytes, expected ${file.size}.`);
}

/** Encodes a commit that is appended to a file, and computes the locations of its lines. */
function encodeCommit(
  file: DataFile,
  writer: Omit<CommitFooter, "holds">,
  lines: readonly NewLine[],
): { bytes: Buffer; located: LocatedLine[]; footer: CommitFooter } {
  const texts: string[] = file.size === 0 ? [headerLine(file.name, file.generation)] : [];
  let offset = file.size + (file.size === 0 ? Buffer.byteLength(texts[0] as string) : 0);
  const located = lines.map(({ head, value }) => {
    const text = value === undefined ? encodeLine(head) : encodeValueLine(head, value);
    const length = Buffer.byteLength(text);
    texts.push(text);
    offset += length;
    return { file, offset: offset - length, length, head };
  });
  const footer: CommitFooter = { ...writer, holds: summarizeHeads(lines.map(({ head }) => head)) };
  texts.push(encodeLine(footer));
  return { bytes: Buffer.from(texts.join("")), located, footer };
}
