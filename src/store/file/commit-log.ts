/**
 * The store-wide list of commits: which file each was written to, how long that file was then, and the names in it once
 * more. A line is added after its commit is durable, so it says two things: to other processes, where there is something
 * new; and to a process that opens the store after a crash, how much was acknowledged. Anything that is in the list and
 * not in its file is lost; anything in a file beyond the list may be unfinished. Fences (fences.ts) are lines of the list too.
 *
 * Apart from fences, which are synced, the list need not be durable: missing lines can be derived from the files.
 */
import { closeSync, fdatasyncSync, fstatSync, openSync, readFileSync, statSync, truncateSync } from "node:fs";
import { headerLine, openForAppend, readBytes, readHeader } from "./data-file.js";
import { isMissingFileError, replaceFileSync, type Slices, writeBytes } from "../../util/index.js";
import { FORMAT, parseLine, splitLines, encodeLine } from "./lines.js";
import type { LogLine } from "./log-lines.js";

export interface LogContents {
  /** The version that wrote it. */
  readonly format: number;
  readonly lines: readonly LogLine[];
  /** Whether all of its lines are good. */
  readonly isIntact: boolean;
  /** Whether the only bad line is the last one, without its end: a process died while it wrote it, or is still writing it. */
  readonly isUnfinished: boolean;
}

/** What was added to the list; or all of it. */
export interface LogUpdate {
  readonly lines: readonly LogLine[];
  /** Then what it does not name is gone. */
  readonly isAll: boolean;
  /** Notes that it has been dealt with. */
  readonly acknowledge: () => void;
}

const NAME = "commits";
/** A shorter list is not worth writing anew; nor is one that would not become much shorter. */
const LONG = 1 << 20;
const MUCH_LONGER = 8;

export class CommitLog {
  readonly path: string;
  #identity = "";
  #size = 0;
  #generation = 0;
  #shortest = 0;

  constructor(path: string) {
    this.path = path;
  }

  get size(): number {
    return this.#size;
  }

  /** Is it several times as long as it was when it was written anew? */
  get isLong(): boolean {
    return this.#size > Math.max(LONG, this.#shortest * MUCH_LONGER);
  }

  /** Reads all of it; `undefined` where there is none. */
  readAll(): LogContents | undefined {
    let handle: number;
    try {
      handle = openSync(this.path, "r");
    } catch (error) {
      if (isMissingFileError(error)) return undefined;
      throw error;
    }
    try {
      const read = parseLog(readFileSync(handle));
      this.#generation = read.generation ?? this.#generation;
      // Another process may be writing the last line at this moment.
      [this.#identity, this.#size] = [identityOf(fstatSync(handle)), read.end];
      return read;
    } finally {
      closeSync(handle);
    }
  }

  /** A mark that changes when lines are added or the list is rewritten. */
  observe(): string {
    const stat = statSync(this.path, { throwIfNoEntry: false });
    return stat ? `${identityOf(stat)} ${stat.size}` : "";
  }

  /** What others have added since it was last read; all of it, if it was written anew. */
  readUpdate(): LogUpdate {
    const nothing: LogUpdate = { lines: [], isAll: false, acknowledge: () => {} };
    const stat = statSync(this.path, { throwIfNoEntry: false });
    if (!stat || (identityOf(stat) === this.#identity && stat.size === this.#size)) return nothing;
    const handle = openSync(this.path, "r");
    try {
      const stats = fstatSync(handle);
      const identity = identityOf(stats);
      const isSame =
        identity === this.#identity && this.#generation === (readHeader(handle)?.generation ?? this.#generation);
      const isAll = !isSame || stats.size < this.#size;
      const from = isAll ? 0 : this.#size;
      const { lines, end, generation } = parseLog(readBytes(handle, from, stats.size - from));
      const take = (): void => {
        [this.#identity, this.#size] = [identity, from + end];
        this.#generation = generation ?? this.#generation;
      };
      return { lines, isAll, acknowledge: take };
    } finally {
      closeSync(handle);
    }
  }

  /**
   * Adds lines. Only for the holder of the lock, once it has read the entire list.
   *
   * @param isHeld is the lock still held? A process that lost it must not cut off lines that it has written in part
   * @returns whether no other process has added anything that was not read
   */
  append(lines: readonly LogLine[], isHeld: () => boolean, sync = false): boolean {
    if (lines.length === 0) return true;
    const handle = openForAppend(this.path);
    try {
      const before = fstatSync(handle).size;
      // Bytes after the last good line may lack a line end.
      const bytes = Buffer.from((before === this.#size ? "" : "\n") + lines.map(encodeLine).join(""));
      try {
        writeBytes(handle, bytes);
        if (sync) fdatasyncSync(handle);
      } catch (error) {
        // A full disk may have stored some of the lines: others must not rely on them.
        if (isHeld()) truncateSync(this.path, before);
        throw error;
      }
      const isAlone = before === this.#size && fstatSync(handle).size === before + bytes.length;
      // A process that lost the lock may have added a line as well: then all of it is read again.
      if (isAlone) this.#size += bytes.length;
      return isAlone;
    } finally {
      closeSync(handle);
    }
  }

  /**
   * Rewrites the list.
   *
   * @param check throws if the lock is not held
   */
  *rewrite(lines: readonly LogLine[], check: () => void): Slices<void> {
    const parts = [headerLine(NAME, ++this.#generation)];
    // Each line has the names of everything in a file.
    for (const line of lines) {
      parts.push(encodeLine(line));
      yield;
    }
    const bytes = Buffer.from(parts.join(""));
    this.#identity = identityOf(replaceFileSync(this.path, bytes, check));
    this.#size = bytes.length;
    this.#shortest = this.#size;
  }
}

/** Together with the generation, distinguishes a file from its replacement: inodes alone are reused. */
function identityOf({ ino, birthtimeMs }: { ino: number; birthtimeMs: number }): string {
  return `${ino} ${birthtimeMs}`;
}

function parseLog(bytes: Buffer): LogContents & { end: number; generation: number | undefined; lines: LogLine[] } {
  const lines: LogLine[] = [];
  let bad = 0;
  let isUnfinished = false;
  let end = 0;
  let generation: number | undefined;
  let format = FORMAT;
  for (const line of splitLines(bytes, 0)) {
    if (line.ends && line.bytes.length === 0) continue;
    const fields = line.ends ? parseLine(line.bytes)?.fields : undefined;
    if (!fields) bad++;
    else if ("savepoint" in fields) [generation, format] = [Number(fields["generation"]), Number(fields["savepoint"])];
    else lines.push(fields as unknown as LogLine);
    if (fields) end = line.offset + line.bytes.length + 1;
    isUnfinished = !line.ends && bad === 1 && generation !== undefined;
  }
  // Where the first line is missing, others may be.
  return { lines, isIntact: bad === 0 && generation !== undefined, isUnfinished, end, generation, format };
}
