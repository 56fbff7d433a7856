/**
 * A file of lines, and the handles on many of them: only so many are open at once.
 *
 * A file is only appended to, or replaced by one with a higher generation. All writes go to its current end, so a process
 * that lost the lock without noticing overwrites nothing. A handle keeps referring to the file that it was opened on, so
 * known offsets stay correct; a process that reopens the path recognizes a replacement by its first line.
 */
import { closeSync, constants, existsSync, fstatSync, openSync, readSync } from "node:fs";
import { dirname } from "node:path";
import { isMissingFileError } from "../../util/index.js";
import { type FileHeader, FORMAT, type LineHead, parseLine, splitLines, encodeLine } from "./lines.js";

/** A file, as far as it is known. */
export interface DataFile {
  readonly name: string;
  readonly path: string;
  /** Another one is another file, though it has the same name. */
  readonly generation: number;
  /** Where the next line is written. */
  size: number;
  /** Bytes of lines that are not true any more. */
  deadBytes: number;
  /** Are there lines that cannot be read? */
  isDamaged: boolean;
  /** Lines by which something went: they are kept as long as older lines, in any file, may say otherwise. */
  removals: LineHead[];
  /** The last commit that is in it, and whether that may not be on the disk yet. */
  lastCommit: number;
  soft: boolean;
}

/** The file is not the one that is known. */
export class FileReplacedError extends Error {
  constructor(
    readonly file: DataFile,
    cause?: unknown,
  ) {
    super(`${file.path} is not the file that it was`, { cause });
  }
}

const MAX_OPEN = 128;
const BLOCK = 1 << 20;
/** No header is longer. */
const MAX_HEADER = 1_024;

export class FileHandles {
  readonly #open = new Map<DataFile, number>();
  readonly #inUse = new Map<DataFile, number>();
  /** Handles to close when they are no longer in use. */
  readonly #closing = new Map<DataFile, number>();

  /** A handle that stays open while nothing else is awaited. */
  of(file: DataFile): number {
    let handle = this.#open.get(file);
    if (handle === undefined) {
      handle = openExisting(file);
      this.#trim();
    } else this.#open.delete(file);
    // Last in order: used last.
    this.#open.set(file, handle);
    return handle;
  }

  /** Keeps a handle open meanwhile. */
  async using<T>(file: DataFile, work: (handle: number) => Promise<T>): Promise<T> {
    const handle = this.of(file);
    this.#inUse.set(file, (this.#inUse.get(file) ?? 0) + 1);
    try {
      return await work(handle);
    } finally {
      const left = (this.#inUse.get(file) ?? 1) - 1;
      if (left > 0) this.#inUse.set(file, left);
      else {
        this.#inUse.delete(file);
        const closing = this.#closing.get(file);
        this.#closing.delete(file);
        if (closing !== undefined) closeSync(closing);
      }
    }
  }

  close(file: DataFile): void {
    const handle = this.#open.get(file);
    this.#open.delete(file);
    if (handle === undefined) return;
    if (this.#inUse.has(file)) this.#closing.set(file, handle);
    else closeSync(handle);
  }

  closeAll(): void {
    for (const file of this.#open.keys()) this.close(file);
  }

  #trim(): void {
    for (const file of this.#open.keys()) {
      if (this.#open.size < MAX_OPEN) return;
      if (!this.#inUse.has(file)) this.close(file);
    }
  }
}

export function newDataFile(name: string, path: string, generation: number): DataFile {
  return { name, path, generation, size: 0, deadBytes: 0, isDamaged: false, removals: [], lastCommit: 0, soft: false };
}

/** The first line of a file. */
export function headerLine(name: string, generation: number): string {
  const header: FileHeader = { savepoint: FORMAT, file: name, generation };
  return encodeLine(header);
}

function openExisting(file: DataFile): number {
  let handle: number;
  try {
    handle = openForAppend(file.path);
  } catch (error) {
    // It was removed because nothing in it was needed; unless all files are missing, as when a volume is not mounted.
    if (isMissingFileError(error) && existsSync(dirname(file.path))) throw new FileReplacedError(file, error);
    if (!isForbidden(error)) throw error;
    // A file that may not be written can still be read.
    handle = openSync(file.path, "r");
  }
  try {
    const header = readHeader(handle);
    if (header && header.generation !== file.generation) throw new FileReplacedError(file);
    return handle;
  } catch (error) {
    closeSync(handle);
    throw error;
  }
}

/** Opens an existing file; writes go to its end. */
export function openForAppend(path: string): number {
  return openSync(path, constants.O_RDWR | constants.O_APPEND);
}

function isForbidden(error: unknown): boolean {
  return ["EACCES", "EPERM", "EROFS"].includes((error as NodeJS.ErrnoException).code ?? "");
}

/** The first line; `undefined` if it is damaged. */
export function readHeader(handle: number): FileHeader | undefined {
  const [first] = splitLines(readBytes(handle, 0, MAX_HEADER), 0);
  const fields = first?.ends ? parseLine(first.bytes)?.fields : undefined;
  return fields && "savepoint" in fields ? (fields as unknown as FileHeader) : undefined;
}

/** Up to `length` bytes: fewer at the end of the file. */
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

/** The lines from one place to another. The last one may lack its end. */
export function* readLines(
  handle: number,
  from: number,
  to: number,
): Generator<{ offset: number; bytes: Buffer; ends: boolean }> {
  let begun: Buffer[] = [];
  let offset = from;
  for (let at = from; at < to;) {
    const block = readBytes(handle, at, Math.min(BLOCK, to - at));
    if (block.length === 0) break;
    for (const line of splitLines(block, at)) {
      if (!line.ends) {
        begun.push(line.bytes);
        continue;
      }
      yield { offset, bytes: begun.length > 0 ? Buffer.concat([...begun, line.bytes]) : line.bytes, ends: true };
      begun = [];
      offset = line.offset + line.bytes.length + 1;
    }
    at += block.length;
  }
  if (begun.length > 0) yield { offset, bytes: Buffer.concat(begun), ends: false };
}
