/**
 * The layout of a store's folder.
 *
 * | path | contents |
 * |---|---|
 * | `commits.jsonl` | the commit log |
 * | `catalog.jsonl` | the catalog file: where everything is, so that a reader need not scan all files; large stores only |
 * | `records.jsonl` | records that were committed without items |
 * | `tapes/*.jsonl` | one data file for each tape: its items, and records that were committed with them |
 * | `blobs/ab/ab12…` | one file for each blob |
 * | `lock/` | the files of the lock |
 */
import { createHash } from "node:crypto";
import { lstatSync, readdirSync, type Stats, statSync } from "node:fs";
import { join } from "node:path";
import { SavepointError } from "../../errors.js";
import { readHeader, withHandle } from "./data-file.js";
import type { DiskOptions } from "../contract/index.js";
import { storeNotFound } from "../shared/index.js";
import {
  createFolders,
  openRegularFile,
  PRIVATE_MODE,
  type Shape,
  targetOfTemporary,
  wrongKind,
} from "../../util/index.js";
import { isBlobName } from "./lines.js";

const EXTENSION = ".jsonl";
const COMMITS = `commits${EXTENSION}`;
const CATALOG = `catalog${EXTENSION}`;
const TAPES = "tapes";
const BLOBS = "blobs";
const LOCK = "lock";

/** The name of the data file for records that are committed without items. */
export const RECORDS_FILE = "records";

const PLAIN = /[a-z0-9-]/;
/** File systems allow 255 bytes, including the extension. */
const MAX_NAME = 200;

/**
 * The name of a tape's data file. Different tapes have different names, even on file systems that ignore case, do not allow
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

/** Whether this is the name of a data file, as {@link tapeFileName} makes it. Other names never become paths. */
export const isDataFileName: Shape = (name) =>
  typeof name === "string" &&
  name.length <= MAX_NAME &&
  /^(records|t-([a-z0-9-]|%[0-9a-f]{2})*|h-[0-9a-f]{64})$/.test(name);

/** Compressed blobs have this extension, so that other tools can decompress them. */
export const COMPRESSED = ".gz";

export class Folder {
  /** @param mode the permissions of new files */
  constructor(
    readonly path: string,
    readonly mode: number = PRIVATE_MODE,
  ) {}

  get commits(): string {
    return join(this.path, COMMITS);
  }

  get catalog(): string {
    return join(this.path, CATALOG);
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

  /** The path of a blob. Throws `DAMAGED` if the name is not a hash: it must not lead out of the folder. */
  blob(hash: string): string {
    if (!isBlobName(hash)) {
      throw new SavepointError("DAMAGED", `${JSON.stringify(hash)} is not the name of a blob: expected 64 hex digits.`);
    }
    return join(this.blobs, hash.slice(0, 2), hash);
  }

  /** The names of all data files. */
  listDataFiles(): string[] {
    const names = readdirSync(this.tapes)
      .filter(isTapeFile)
      .map((name) => name.slice(0, -EXTENSION.length))
      .sort();
    return statIfPresent(this.file(RECORDS_FILE)) ? [...names, RECORDS_FILE] : names;
  }

  /** Whether nothing has been written to the store yet. */
  get isNew(): boolean {
    return !statIfPresent(this.commits) && this.listDataFiles().length === 0;
  }

  /** The paths of temporary files that the holder of the lock, or an earlier one, has not renamed. */
  temporaryFiles(): string[] {
    const isOwn = (name: string): boolean => {
      const target = targetOfTemporary(name) ?? "";
      const own = [COMMITS, CATALOG, `${RECORDS_FILE}${EXTENSION}`];
      return own.includes(target) || isTapeFile(target);
    };
    return [this.path, this.tapes].flatMap((folder) =>
      readdirSync(folder)
        .filter(isOwn)
        .map((name) => join(folder, name)),
    );
  }

  /** The files in the folders of blobs, including temporary ones. Users may keep files of their own there. */
  storedBlobs(): { readonly path: string; readonly hash: string }[] {
    return this.#blobFolders().flatMap((folder) =>
      readdirSync(folder).flatMap((name) => {
        const file = targetOfTemporary(name) ?? name;
        const hash = file.endsWith(COMPRESSED) ? file.slice(0, -COMPRESSED.length) : file;
        return isBlobName(hash) ? [{ path: join(folder, name), hash }] : [];
      }),
    );
  }

  #blobFolders(): string[] {
    if (!statIfPresent(this.blobs)) return [];
    return readdirSync(this.blobs)
      .filter((name) => /^[0-9a-f]{2}$/.test(name))
      .map((name) => join(this.blobs, name));
  }

  /**
   * Creates missing folders, unless nothing may be written. A folder that contains something other than a store is rejected and not changed.
   *
   * Fails with `STORE_NOT_FOUND` if there is no store and it must not be created. A read-only store is not changed at all.
   */
  prepare(url: string, { create = true, readOnly = false }: Pick<DiskOptions, "create" | "readOnly">): void {
    const stat = statSync(this.path, { throwIfNoEntry: false });
    if ((!create || readOnly) && !(stat?.isDirectory() && statSync(this.tapes, { throwIfNoEntry: false })))
      throw storeNotFound(url);
    if (stat && !stat.isDirectory()) throw notAStore(url, "it is a file, not a folder");
    if (stat && !this.#isStore()) throw notAStore(url, "the folder contains other files");
    const folders = [this.tapes, this.blobs, this.lock];
    for (const folder of folders) expectFolder(folder);
    if (!readOnly) for (const folder of folders) createFolders(folder, this.mode);
    for (const folder of this.#blobFolders()) expectFolder(folder);
  }

  /** Whether the folder is a store, empty, or left by a process that died while it created a store. */
  #isStore(): boolean {
    const folders = [TAPES, BLOBS, LOCK];
    const names = readdirSync(this.path).filter((name) => !name.startsWith("."));
    if (names.includes(TAPES)) expectFolder(this.tapes);
    const files = [this.commits, this.file(RECORDS_FILE), ...(names.includes(TAPES) ? this.#tapeFiles() : [])];
    let isWritten = false;
    for (const path of files) {
      if ((statIfPresent(path)?.size ?? 0) === 0) continue;
      // Users may add files of their own, and some headers may be damaged: one intact header is enough.
      if (withHandle(openRegularFile(path), readHeader) !== undefined) return true;
      isWritten = true;
    }
    if (isWritten) return false;
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
  return (
    name.endsWith(EXTENSION) &&
    isDataFileName(name.slice(0, -EXTENSION.length)) &&
    name !== `${RECORDS_FILE}${EXTENSION}`
  );
}

/** The status of a file; of a link itself, not of its target. */
function statIfPresent(path: string): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false });
}

/** Throws `DAMAGED` if the path exists and is not a folder: what a link points to does not belong to the store. */
function expectFolder(path: string): void {
  if (statIfPresent(path)?.isDirectory() === false) throw wrongKind(path, "folder");
}

function notAStore(url: string, why: string): SavepointError<"NOT_A_STORE"> {
  return new SavepointError(
    "NOT_A_STORE",
    `Cannot open ${url}: ${why}. Use an empty folder, or one that contains a store.`,
  );
}
