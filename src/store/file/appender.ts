/**
 * Appends commits to files, in groups: all that a group has written is synced together, and then noted in the list of
 * commits. Where that fails, the files are cut back to what they were.
 */
import { closeSync, fdatasync, fstatSync, openSync, rmSync, statSync } from "node:fs";
import { promisify } from "node:util";
import { isSavepointError, SavepointError } from "../../errors.js";
import { backgroundReport, type DiskOptions, type SyncFile } from "../options.js";
import type { Access } from "./access.js";
import type { Found } from "./catalog.js";
import { type DataFile, headerLine, newDataFile, truncate, writeBytes } from "./data-file.js";
import { fileFailure } from "../file-failure.js";
import { type Head, type Seal, toHolds, toLine, toValueLine } from "./lines.js";
import type { LogEntry } from "./log-lines.js";
import { syncFolder } from "../replace-file.js";

/** A line that is to be written. */
export interface NewLine {
  readonly head: Head;
  readonly value?: string;
}

/** What a group has written so far. */
interface Group {
  readonly entries: LogEntry[];
  /** The sizes that files had before; `undefined` for those that were not there. */
  readonly before: Map<DataFile, number | undefined>;
}

export class Appender {
  readonly #access: Access;
  readonly #soft: boolean;
  readonly #sync: (handle: number) => Promise<void>;
  readonly #probe: (point: string) => void;
  readonly #tears: boolean;
  readonly #report: (message: string, error: unknown) => void;
  #group: Group | undefined;

  constructor(access: Access, options: DiskOptions) {
    this.#access = access;
    this.#soft = options.durability === "process";
    this.#sync = promisify<number, void>((options.syncFile ?? fdatasync) as SyncFile);
    this.#probe = options.probe ?? (() => {});
    this.#tears = options.probe !== undefined;
    this.#report = backgroundReport(options);
  }

  /** Runs work that appends, and makes durable what it has appended. The lock is held. */
  async group<T>(work: () => T): Promise<T> {
    this.#probe("locked");
    const group: Group = { entries: [], before: new Map() };
    this.#group = group;
    const result = work();
    this.#group = undefined;
    if (group.entries.length === 0) return result;
    this.#probe("written");
    const { contents, lock } = this.#access;
    try {
      await this.#syncAll(group);
    } catch (error) {
      // What a failed sync has lost, a second one does not bring back.
      this.#access.poison(error);
      await this.#takeBack(group);
      throw fileFailure(error, contents.url, "Writing to");
    }
    this.#probe("synced");
    try {
      lock.check();
      contents.log.append(group.entries);
    } catch (error) {
      await this.#takeBack(group);
      throw fileFailure(error, contents.url, "Writing to");
    }
    this.#probe("logged");
    await this.#shortenLog();
    return result;
  }

  /** What was written is safe by now, whatever becomes of this. */
  async #shortenLog(): Promise<void> {
    const { log } = this.#access.contents;
    try {
      if (log.isLong) await log.rewrite(this.#access.contents.summary());
    } catch (error) {
      this.#report("the list of commits could not be shortened, and stays as it is", error);
    }
  }

  /** Appends a commit to a file. */
  append(name: string, at: number, lines: readonly NewLine[]): void {
    const { contents, lock } = this.#access;
    const group = this.#group;
    if (!group) throw new Error("Nothing is appended outside of a group.");
    lock.check();
    const file = contents.files.get(name) ?? newDataFile(name, contents.folder.file(name), at);
    const { bytes, found, seal } = format(file, at, lines);
    const before = file.size === 0 ? undefined : file.size;
    this.#write(file, bytes);
    if (!group.before.has(file)) group.before.set(file, before);
    file.size += bytes.length;
    contents.files.set(name, file);
    for (const each of found) contents.catalog.apply(each);
    [file.lastCommit, file.soft] = [at, this.#soft];
    const { generation, size } = file;
    group.entries.push({
      file: name,
      generation,
      size,
      commit: at,
      holds: seal.holds,
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

  #write(file: DataFile, bytes: Buffer): void {
    const { handles } = this.#access.contents;
    try {
      if (file.size === 0) closeSync(openSync(file.path, "w"));
      const handle = handles.of(file);
      if (!isAt(handle, file.path)) throw this.#replaced(file);
      if (this.#tears) {
        const half = bytes.length >> 1;
        writeBytes(handle, bytes.subarray(0, half), file.size);
        this.#probe("torn");
        writeBytes(handle, bytes.subarray(half), file.size + half);
      } else writeBytes(handle, bytes, file.size);
    } catch (error) {
      // A full disk may have taken a part. What took a file's place is not ours to cut.
      if (!isSavepointError(error)) this.#cut(file, file.size);
      throw error;
    }
  }

  /** Somebody put another file in its place and did not get to say so: what is written to the old one would be gone. */
  #replaced(file: DataFile): SavepointError<"BUSY"> {
    this.#access.distrust();
    this.#access.contents.handles.close(file);
    return new SavepointError("BUSY", `${file.path} was replaced by another process. Nothing was written; try again.`);
  }

  async #syncAll({ before }: Group): Promise<void> {
    if (this.#soft) return;
    const { folder, handles } = this.#access.contents;
    const folders = new Set<string>();
    for (const [file, size] of before) if (size === undefined) folders.add(folder.folderOf(file.name));
    await Promise.all([
      ...[...before.keys()].map((file) => handles.using(file, this.#sync)),
      ...[...folders].map(syncFolder),
    ]);
  }

  /** Nothing of the group counts, unless somebody else has taken over: then it is theirs to say, and not ours to touch. */
  async #takeBack({ before }: Group): Promise<void> {
    this.#access.distrust();
    if (!this.#access.lock.isHeld) return;
    for (const [file, size] of before) this.#cut(file, size ?? 0);
    await this.#access.reload();
  }

  #cut(file: DataFile, size: number): void {
    const { handles } = this.#access.contents;
    try {
      if (size > 0) truncate(handles.of(file), size);
      else {
        handles.close(file);
        rmSync(file.path, { force: true });
      }
    } catch (error) {
      this.#access.poison(error);
    }
  }
}

/** Is the open file the one that has this name? */
function isAt(handle: number, path: string): boolean {
  return fstatSync(handle).ino === statSync(path, { throwIfNoEntry: false })?.ino;
}

/** The bytes of a commit, and where its lines are going to be. */
function format(file: DataFile, at: number, lines: readonly NewLine[]): { bytes: Buffer; found: Found[]; seal: Seal } {
  const texts: string[] = file.size === 0 ? [headerLine(file.name, file.generation)] : [];
  let offset = file.size + (file.size === 0 ? Buffer.byteLength(texts[0] as string) : 0);
  const found = lines.map(({ head, value }) => {
    const text = value === undefined ? toLine(head) : toValueLine(head, value);
    const length = Buffer.byteLength(text);
    texts.push(text);
    offset += length;
    return { file, offset: offset - length, length, head };
  });
  const seal: Seal = { commit: at, holds: toHolds(lines.map(({ head }) => head)) };
  texts.push(toLine(seal));
  return { bytes: Buffer.from(texts.join("")), found, seal };
}
