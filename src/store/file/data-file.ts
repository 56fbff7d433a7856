/**
 * Data files, and reading their bytes and lines.
 *
 * A data file is only appended to, or replaced by a file with a higher generation. All writes go to its current end, so a
 * process that lost the lock without noticing overwrites nothing.
 */
import { closeSync, constants, fstatSync, readSync } from "node:fs";
import { isMissingFileError, openRegularFile } from "../../util/index.js";
import {
  encodeLine,
  type FileHeader,
  FORMAT,
  isHeader,
  type LineHead,
  parseLine,
  type RawLine,
  splitLines,
} from "./lines.js";

/** A data file, as far as this process has read it. */
export interface DataFile {
  readonly name: string;
  readonly path: string;
  /** Distinguishes a file from its replacement, which has the same name. */
  readonly generation: number;
  /** The offset at which the next line is written. */
  size: number;
  /** Bytes of lines that no longer count. */
  deadBytes: number;
  /** Whether some lines are damaged. */
  isDamaged: boolean;
  /** Removals in this file. They are needed as long as any file may contain an older line about the same thing. */
  removals: LineHead[];
  lastCommit: number;
  /** How many lines are known to be lost. */
  lostLines: number;
  /** Whether the last commit may not have reached the disk. */
  isUnsynced: boolean;
}

export function newDataFile(name: string, path: string, generation: number): DataFile {
  return {
    name,
    path,
    generation,
    size: 0,
    deadBytes: 0,
    isDamaged: false,
    removals: [],
    lastCommit: 0,
    lostLines: 0,
    isUnsynced: false,
  };
}

/** How many lines are processed between two calls to `onProgress`. */
export const LINES_PER_PROGRESS = 1_024;

const BLOCK = 1 << 20;
/** The most bytes of a line: a string cannot be longer. */
const MAX_LINE = 1 << 29;
/** The length of the longest header. */
const MAX_HEADER = 1_024;

/** The first line of a file. */
export function headerLine(name: string, generation: number): string {
  const header: FileHeader = { savepoint: FORMAT, file: name, generation };
  return encodeLine(header);
}

/** Reads the header of an open file; `undefined` if it is damaged. */
export function readHeader(handle: number): FileHeader | undefined {
  const [first] = splitLines(readBytes(handle, 0, MAX_HEADER), 0);
  const fields = first?.ends ? parseLine(first.bytes)?.fields : undefined;
  return isHeader(fields) ? (fields as unknown as FileHeader) : undefined;
}

/** Opens an existing file for reading and for writing at its end. */
export function openForAppend(path: string): number {
  return openRegularFile(path, constants.O_RDWR | constants.O_APPEND);
}

/** Opens a file for reading; `undefined` if it does not exist. */
export function openIfPresent(path: string): number | undefined {
  try {
    return openRegularFile(path);
  } catch (error) {
    if (isMissingFileError(error)) return undefined;
    throw error;
  }
}

/** Runs `work` with an open file, and closes the file. */
export function withHandle<T>(handle: number, work: (handle: number) => T): T {
  try {
    return work(handle);
  } finally {
    closeSync(handle);
  }
}

/** Runs `work` with a file that is opened for reading; returns `undefined` if the file does not exist. */
export function withFileIfPresent<T>(path: string, work: (handle: number) => T): T | undefined {
  const handle = openIfPresent(path);
  return handle === undefined ? undefined : withHandle(handle, work);
}

/** Reads up to `length` bytes: fewer at the end of the file. */
export function readBytes(handle: number, offset: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length);
  let read = 0;
  while (read < length) {
    const count = readSync(handle, bytes, read, length - read, offset + read);
    if (count === 0) break;
    read += count;
  }
  return bytes.subarray(0, read);
}

export function sizeOf(handle: number): number {
  return fstatSync(handle).size;
}

/** Reads the lines between two offsets, block by block. The last line can lack its line end. */
export function* readLines(handle: number, from: number, to: number): Generator<RawLine> {
  let partial: Buffer[] = [];
  let partialBytes = 0;
  let offset = from;
  for (let at = from; at < to;) {
    const block = readBytes(handle, at, Math.min(BLOCK, to - at));
    if (block.length === 0) break;
    for (const line of splitLines(block, at)) {
      if (!line.ends) {
        // A longer line is damaged: its start is enough to find that.
        if (partialBytes <= MAX_LINE) partial.push(line.bytes);
        partialBytes += line.bytes.length;
        continue;
      }
      yield { offset, bytes: partial.length > 0 ? Buffer.concat([...partial, line.bytes]) : line.bytes, ends: true };
      [partial, partialBytes] = [[], 0];
      offset = line.offset + line.bytes.length + 1;
    }
    at += block.length;
  }
  if (partial.length > 0) yield { offset, bytes: Buffer.concat(partial), ends: false };
}
