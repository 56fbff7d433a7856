/**
 * The commit log: for each commit of the store, the file it was written to, the size of that file afterwards, and the heads
 * of its lines.
 *
 * A line is appended after its commit is durable. It tells other processes where to read new lines, and it tells a process
 * that opens the store after a crash how much was acknowledged: anything in the log that is missing from its file is lost,
 * and anything in a file beyond the log may be unfinished. Fences (fences.ts) are lines of the log too.
 *
 * Apart from fences, which are synced, the log does not have to be durable: missing lines are derived from the files.
 */
import { fdatasyncSync, fstatSync, ftruncateSync, lstatSync, readFileSync } from "node:fs";
import { crc32 } from "node:zlib";
import {
  isCounter,
  isNumber,
  objectOf,
  oneOf,
  openRegularFile,
  optional,
  replaceFileSync,
  type Slices,
  writeBytes,
} from "../../util/index.js";
import { headerLine, openForAppend, readBytes, readHeader, withFileIfPresent, withHandle } from "./data-file.js";
import type { Fence } from "./fences.js";
import { isDataFileName } from "./folder.js";
import {
  type CommitFooter,
  encodeLine,
  FORMAT,
  isCommit,
  isFooter,
  isHeader,
  oneKindOf,
  parseLine,
  splitLines,
} from "./lines.js";

/** The state of a file after a commit. */
export interface LogEntry extends CommitFooter {
  readonly file: string;
  readonly generation: number;
  readonly size: number;
  /** `holds` lists all lines of the file that count, not only those of one commit. */
  readonly all?: true;
  /** The commit was not synced to the disk: it can be missing after a power cut. */
  readonly soft?: true;
  /** The file was removed, because nothing in it was valid any longer. */
  readonly removed?: true;
}

/** The last process that had the store open has closed it, after syncing all files. */
export interface CloseMark {
  readonly closed: number;
  readonly fence?: number;
}

/** A line of the log: a commit, the number of the last commit, a fence, or a close mark. */
export type LogLine = LogEntry | { readonly last: number } | Fence | CloseMark;

const isTrue = optional(oneOf(true));
const isEntry = objectOf({
  file: isDataFileName,
  generation: isCommit,
  size: isCounter,
  all: isTrue,
  soft: isTrue,
  removed: isTrue,
});

/** Whether decoded fields are a line of the log. */
const isLogLine = oneKindOf({
  file: (fields) => isEntry(fields) && isFooter(fields),
  last: objectOf({ last: isCommit }),
  after: objectOf({ fence: isCounter, after: isCommit }),
  closed: objectOf({ closed: isNumber, fence: optional(isCounter) }),
});

/** The entire log. */
export interface LogContents {
  /** The version of the format that it was written in. */
  readonly format: number;
  readonly lines: readonly LogLine[];
  /** Whether all lines are intact. */
  readonly isIntact: boolean;
  /** Whether the only damage is a last line without its end: a process died while writing it, or is still writing it. */
  readonly isUnfinished: boolean;
}

/** A position in the log, and a checksum of the bytes before it. */
export interface LogStamp {
  readonly generation: number;
  readonly size: number;
  readonly sum: number;
}

export const isLogStamp = objectOf({ generation: isCommit, size: isCounter, sum: isCounter });

/** Lines that were added since the log was last read. */
export interface LogUpdate {
  readonly lines: readonly LogLine[];
  /** Whether the log was rewritten. Then `lines` is all of it, and files that it does not mention were removed. */
  readonly isAll: boolean;
  /** Whether some of the added bytes are no intact lines: another process is writing them, or they are damaged. */
  readonly hasDamage: boolean;
  /** Marks these lines as read. Until then, the next update contains them again. */
  readonly acknowledge: () => void;
}

const NAME = "commits";
/** The log is rewritten when it is longer than this, and several times as long as after it was last rewritten. */
const MIN_REWRITE_SIZE = 1 << 20;
const REWRITE_FACTOR = 8;
/** The last bytes of the log that a stamp covers: every line contains the number of its commit and a checksum. */
const STAMP_BYTES = 4096;

export class CommitLog {
  #identity = "";
  #size = 0;
  #generation = 0;
  #sizeWhenRewritten = 0;

  /** @param mode the permissions of a new log */
  constructor(
    readonly path: string,
    readonly mode: number,
  ) {}

  /** The size of the part that was read or written by this process. */
  get size(): number {
    return this.#size;
  }

  /** Whether rewriting the log would make it much shorter. */
  get isLong(): boolean {
    return this.#size > Math.max(MIN_REWRITE_SIZE, this.#sizeWhenRewritten * REWRITE_FACTOR);
  }

  /** Reads the entire log; `undefined` if it does not exist. */
  readAll(): LogContents | undefined {
    return withFileIfPresent(this.path, (handle) => {
      const log = parseLog(readFileSync(handle));
      this.#generation = log.generation ?? this.#generation;
      // Only up to the last intact line: another process may be writing the next one at this moment.
      [this.#identity, this.#size] = [identityOf(fstatSync(handle)), log.end];
      return log;
    });
  }

  /** The position up to which this process knows the log; `undefined` if the log was replaced or is shorter. */
  stamp(): LogStamp | undefined {
    return withFileIfPresent(this.path, (handle) => this.#stampAt(handle, this.#size));
  }

  /** Continues from a position at which all lines before it were known. Returns false if the log is not that one. */
  resume(stamp: LogStamp): boolean {
    const isKnown = withFileIfPresent(this.path, (handle) => {
      const found = this.#stampAt(handle, stamp.size);
      if (found?.generation !== stamp.generation || found.sum !== stamp.sum) return false;
      [this.#identity, this.#size, this.#generation] = [identityOf(fstatSync(handle)), stamp.size, stamp.generation];
      return true;
    });
    return isKnown ?? false;
  }

  #stampAt(handle: number, size: number): LogStamp | undefined {
    const header = readHeader(handle);
    if (header?.savepoint !== FORMAT) return undefined;
    const from = Math.max(0, size - STAMP_BYTES);
    const bytes = readBytes(handle, from, size - from);
    const isComplete = bytes.length > 0 && bytes.length === size - from;
    return isComplete ? { generation: header.generation, size, sum: crc32(bytes) } : undefined;
  }

  /** A string that changes when lines are added or the log is rewritten. */
  observe(): string {
    const stat = lstatSync(this.path, { throwIfNoEntry: false });
    return stat ? `${identityOf(stat)} ${stat.size}` : "";
  }

  /** Reads the lines that other processes have added, or the entire log if it was rewritten. */
  readUpdate(): LogUpdate {
    const nothing: LogUpdate = { lines: [], isAll: false, hasDamage: false, acknowledge: () => {} };
    const stat = lstatSync(this.path, { throwIfNoEntry: false });
    if (!stat || (identityOf(stat) === this.#identity && stat.size === this.#size)) return nothing;
    return withHandle(openRegularFile(this.path), (handle) => {
      const stats = fstatSync(handle);
      const identity = identityOf(stats);
      const isSame =
        identity === this.#identity && this.#generation === (readHeader(handle)?.generation ?? this.#generation);
      const isAll = !isSame || stats.size < this.#size;
      const from = isAll ? 0 : this.#size;
      const { lines, end, generation, damaged } = parseLog(readBytes(handle, from, stats.size - from));
      const acknowledge = (): void => {
        [this.#identity, this.#size] = [identity, from + end];
        this.#generation = generation ?? this.#generation;
      };
      return { lines, isAll, hasDamage: damaged > 0, acknowledge };
    });
  }

  /**
   * Appends lines. Only the holder of the lock may call this, after it has read the entire log.
   *
   * @param isHeld whether the lock is still held: a process that lost it must not truncate the log after a failed write
   * @returns whether no other process has added lines that were not read
   */
  append(lines: readonly LogLine[], isHeld: () => boolean, sync = false): boolean {
    if (lines.length === 0) return true;
    return withHandle(openForAppend(this.path), (handle) => {
      const before = fstatSync(handle).size;
      // Bytes after the last intact line may lack a line end.
      const bytes = Buffer.from((before === this.#size ? "" : "\n") + lines.map(encodeLine).join(""));
      let after: number;
      try {
        writeBytes(handle, bytes);
        if (sync) fdatasyncSync(handle);
        after = fstatSync(handle).size;
      } catch (error) {
        // Some or all of the lines may be stored, but the caller removes what they list: other processes must not rely on them.
        if (isHeld()) ftruncateSync(handle, before);
        throw error;
      }
      const isAlone = before === this.#size && after === before + bytes.length;
      // If a process that lost the lock has added a line as well, the next update contains both.
      if (isAlone) this.#size += bytes.length;
      return isAlone;
    });
  }

  /**
   * Replaces the log, in slices.
   *
   * @param assertHeld throws if the lock is not held; called directly before the new log takes the place of the old one
   */
  *rewrite(lines: readonly LogLine[], assertHeld: () => void): Slices<void> {
    const parts = [headerLine(NAME, ++this.#generation)];
    for (const line of lines) {
      // A line can be long: it lists everything in a file.
      parts.push(encodeLine(line));
      yield;
    }
    const bytes = Buffer.from(parts.join(""));
    this.#identity = identityOf(replaceFileSync(this.path, bytes, assertHeld, this.mode));
    this.#size = bytes.length;
    this.#sizeWhenRewritten = this.#size;
  }
}

/** Distinguishes a file from its replacement, together with the generation: inodes alone are reused. */
function identityOf({ ino, birthtimeMs }: { ino: number; birthtimeMs: number }): string {
  return `${ino} ${birthtimeMs}`;
}

interface ParsedLog extends LogContents {
  readonly end: number;
  readonly generation: number | undefined;
  /** The number of lines that are not intact. */
  readonly damaged: number;
}

function parseLog(bytes: Buffer): ParsedLog {
  const lines: LogLine[] = [];
  let damaged = 0;
  let isUnfinished = false;
  let end = 0;
  let generation: number | undefined;
  let format = FORMAT;
  for (const line of splitLines(bytes, 0)) {
    if (line.ends && line.bytes.length === 0) continue;
    const fields = line.ends ? parseLine(line.bytes)?.fields : undefined;
    if (isHeader(fields)) [generation, format] = [Number(fields?.["generation"]), Number(fields?.["savepoint"])];
    else if (isLogLine(fields)) lines.push(fields as unknown as LogLine);
    else damaged++;
    if (fields) end = line.offset + line.bytes.length + 1;
    isUnfinished = !line.ends && damaged === 1 && generation !== undefined;
  }
  // If the header is missing, other lines may be missing too.
  return { lines, isIntact: damaged === 0 && generation !== undefined, isUnfinished, end, generation, format, damaged };
}
