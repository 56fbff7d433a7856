/**
 * Open handles of data files: a bounded number, of which those used longest ago are closed first.
 *
 * A handle keeps referring to the file on which it was opened, so known offsets stay correct while another process replaces
 * the file. A process that reopens the path recognizes a replacement by the generation in its header.
 */
import { closeSync, existsSync } from "node:fs";
import { dirname } from "node:path";
import { isMissingFileError, openRegularFile } from "../../util/index.js";
import { type DataFile, openForAppend, readHeader } from "./data-file.js";

const MAX_OPEN = 128;

/** The file at a path is not the known one: another process has replaced or removed it. */
export class FileReplacedError extends Error {
  constructor(
    readonly file: DataFile,
    cause?: unknown,
  ) {
    super(`Another process has replaced or removed ${file.path}.`, { cause });
  }
}

export class FileHandles {
  readonly #isReadOnly: boolean;
  /** Least recently used first. */
  readonly #open = new Map<DataFile, number>();
  /** How many calls to {@link using} are in progress. */
  readonly #users = new Map<DataFile, number>();
  /** Handles to close when they are no longer in use. */
  readonly #closing = new Map<DataFile, number>();

  constructor(isReadOnly: boolean) {
    this.#isReadOnly = isReadOnly;
  }

  /** A handle that stays open until the caller awaits something. Throws {@link FileReplacedError}. */
  of(file: DataFile): number {
    let handle = this.#open.get(file);
    if (handle === undefined) {
      handle = openExisting(file, this.#isReadOnly);
      this.#trim();
    } else this.#open.delete(file);
    this.#open.set(file, handle);
    return handle;
  }

  /** Runs `work` with a handle that stays open until it ends. Throws {@link FileReplacedError}. */
  async using<T>(file: DataFile, work: (handle: number) => Promise<T>): Promise<T> {
    const handle = this.of(file);
    this.#users.set(file, (this.#users.get(file) ?? 0) + 1);
    try {
      return await work(handle);
    } finally {
      const left = (this.#users.get(file) ?? 1) - 1;
      if (left > 0) this.#users.set(file, left);
      else {
        this.#users.delete(file);
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
    if (this.#users.has(file)) this.#closing.set(file, handle);
    else closeSync(handle);
  }

  closeAll(): void {
    for (const file of this.#open.keys()) this.close(file);
  }

  #trim(): void {
    for (const file of this.#open.keys()) {
      if (this.#open.size < MAX_OPEN) return;
      if (!this.#users.has(file)) this.close(file);
    }
  }
}

function openExisting(file: DataFile, isReadOnly: boolean): number {
  let handle: number;
  try {
    handle = isReadOnly ? openRegularFile(file.path) : openForAppend(file.path);
  } catch (error) {
    // If the folder is missing too, the file was not removed by another process: a volume may not be mounted.
    if (isMissingFileError(error) && existsSync(dirname(file.path))) throw new FileReplacedError(file, error);
    if (!isForbidden(error)) throw error;
    // A file without write permission can still be read.
    handle = openRegularFile(file.path);
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

function isForbidden(error: unknown): boolean {
  return ["EACCES", "EPERM", "EROFS"].includes((error as NodeJS.ErrnoException).code ?? "");
}
