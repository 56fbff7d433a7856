/**
 * The layout of a store's folder.
 *
 * | path | contents |
 * |---|---|
 * | `commits.jsonl` | the commit log |
 * | `records.jsonl` | records that were committed without items |
 * | `tapes/*.jsonl` | one data file for each tape: its items, and records that were committed with them |
 * | `blobs/ab/ab12…` | one file for each blob |
 * | `lock/` | the files of the lock |
 */
import { createHash } from "node:crypto";
import { mkdirSync, openSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { SavepointError } from "../../errors.js";
import { readHeader, withHandle } from "./data-file.js";
import type { DiskOptions } from "../contract/index.js";
import { storeNotFound } from "../shared/index.js";
import { targetOfTemporary } from "../../util/index.js";

const EXTENSION = ".jsonl";
const COMMITS = `commits${EXTENSION}`;
const TAPES = "tapes";
const BLOBS = "blobs";
const LOCK = "lock";

/** The name of the data file for records that are committed without items. */
export const RECORDS_FILE = "records";

const PLAIN = /[a-z0-9-]/;
/** File systems allow 255 bytes, including the extension. */
const MAX_NAME = 200;

/**
 * The name of a tape's data file. Different tapes have different names, also on file systems that ignore case, do not allow
 * some characters, or reserve names such as `con`.
 */
export function tapeFileName(tape: string): string {
  let name = "t-";
  for (const byte of Buffer.from(tape)) {
    const character = String.fromCharCode(byte);
    name += PLAIN.test(character) ? character : `%${byte.toString(16).padStart(2, "0")}`;
  }
  if (name.length <= MAX_NAME) return name;
  return `h-${createHash("sha256").update(tape).digest("hex")}`;
}

export class Folder {
  constructor(readonly path: string) {}

  get commits(): string {
    return join(this.path, COMMITS);
  }

  get lock(): string {
    return join(this.path, LOCK);
  }

  get tapes(): string {
    return join(this.path, TAPES);
  }

  get blobs(): string {
    return join(this.path, BLOBS);
  }

  /** The folder that contains a data file. */
  folderOf(name: string): string {
    return name === RECORDS_FILE ? this.path : this.tapes;
  }

  /** The path of a data file. */
  file(name: string): string {
    return join(this.folderOf(name), `${name}${EXTENSION}`);
  }

  blob(hash: string): string {
    return join(this.blobs, hash.slice(0, 2), hash);
  }

  /** The names of all data files. */
  listDataFiles(): string[] {
    const names = readdirSync(this.tapes)
      .filter(isTapeFile)
      .map((name) => name.slice(0, -EXTENSION.length))
      .sort();
    return statSync(this.file(RECORDS_FILE), { throwIfNoEntry: false }) ? [...names, RECORDS_FILE] : names;
  }

  /** Whether nothing has been written to the store yet. */
  get isNew(): boolean {
    return !statSync(this.commits, { throwIfNoEntry: false }) && this.listDataFiles().length === 0;
  }

  /** The paths of temporary files that the holder of the lock, or an earlier one, has not renamed. */
  temporaryFiles(): string[] {
    const isOwn = (name: string): boolean => /^(commits|records|[th]-.*)\.jsonl$/.test(targetOfTemporary(name) ?? "");
    return [this.path, this.tapes].flatMap((folder) =>
      readdirSync(folder)
        .filter(isOwn)
        .map((name) => join(folder, name)),
    );
  }

  /** The names of all files in the folders of blobs, including temporary ones. */
  storedBlobs(): string[] {
    const parts = readdirSync(this.blobs).filter((name) => /^[0-9a-f]{2}$/.test(name));
    return parts.flatMap((part) => readdirSync(join(this.blobs, part)));
  }

  /**
   * Creates missing folders, unless nothing may be written. A folder that contains something other than a store is rejected and not changed.
   *
   * @param options with `create: false`, a missing store fails with `STORE_NOT_FOUND`
   */
  prepare(url: string, { create = true, readOnly = false }: Pick<DiskOptions, "create" | "readOnly"> = {}): void {
    const stat = statSync(this.path, { throwIfNoEntry: false });
    if (!create && !(stat?.isDirectory() && statSync(this.tapes, { throwIfNoEntry: false }))) throw storeNotFound(url);
    if (stat && !stat.isDirectory()) throw notAStore(url, "it is a file, not a folder");
    if (stat && !this.#isStore()) throw notAStore(url, "the folder contains other files");
    if (readOnly) return;
    for (const folder of [this.tapes, this.blobs, this.lock]) mkdirSync(folder, { recursive: true });
  }

  /** Whether the folder is a store, empty, or left by a process that died while it created a store. */
  #isStore(): boolean {
    const folders = [TAPES, BLOBS, LOCK];
    const names = readdirSync(this.path).filter((name) => !name.startsWith("."));
    const files = [this.commits, this.file(RECORDS_FILE), ...(names.includes(TAPES) ? this.#tapeFiles() : [])];
    const written = files.filter((path) => (statSync(path, { throwIfNoEntry: false })?.size ?? 0) > 0);
    // Users may add files of their own, and some headers may be damaged: one intact header is enough.
    if (written.length > 0) return written.some((path) => withHandle(openSync(path, "r"), readHeader) !== undefined);
    const own = [...folders, COMMITS, `${RECORDS_FILE}${EXTENSION}`];
    return names.every((name) => own.includes(name) || targetOfTemporary(name) === COMMITS);
  }

  #tapeFiles(): string[] {
    return readdirSync(this.tapes)
      .filter(isTapeFile)
      .map((name) => join(this.tapes, name));
  }
}

/** Whether a file in the folder of tapes is a data file. Users may keep files of their own there. */
function isTapeFile(name: string): boolean {
  return /^[th]-/.test(name) && name.endsWith(EXTENSION);
}

function notAStore(url: string, why: string): SavepointError<"NOT_A_STORE"> {
  return new SavepointError(
    "NOT_A_STORE",
    `Cannot open ${url}: ${why}. Use an empty folder, or one that contains a store.`,
  );
}
