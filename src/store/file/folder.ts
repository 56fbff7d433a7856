/** The folder of a store: what is where in it, and whether it is one. */
import { closeSync, mkdirSync, openSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { SavepointError } from "../../errors.js";
import { readHeader } from "./data-file.js";
import { RECORDS_FILE } from "./names.js";
import { storeNotFound } from "../shared/index.js";
import { targetOfTemporary } from "../../util/index.js";

const EXTENSION = ".jsonl";
const COMMITS = `commits${EXTENSION}`;
const TAPES = "tapes";
const BLOBS = "blobs";
const LOCK = "lock";

export class Folder {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

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

  /** The folder of a file of lines. */
  folderOf(name: string): string {
    return name === RECORDS_FILE ? this.path : this.tapes;
  }

  file(name: string): string {
    return join(this.folderOf(name), `${name}${EXTENSION}`);
  }

  blob(hash: string): string {
    return join(this.blobs, hash.slice(0, 2), hash);
  }

  /** The names of the files of lines that are there. */
  listDataFiles(): string[] {
    const names = readdirSync(this.tapes)
      .filter(isTapeFile)
      .map((name) => name.slice(0, -EXTENSION.length))
      .sort();
    return statSync(this.file(RECORDS_FILE), { throwIfNoEntry: false }) ? [...names, RECORDS_FILE] : names;
  }

  /** Has nothing been written to it yet? */
  get isNew(): boolean {
    return !statSync(this.commits, { throwIfNoEntry: false }) && this.listDataFiles().length === 0;
  }

  /** Temporary files of the process that holds the lock, or of earlier holders that are gone. */
  temporaryFiles(): string[] {
    const isOwn = (name: string): boolean => /^(commits|records|[th]-.*)\.jsonl$/.test(targetOfTemporary(name) ?? "");
    return [this.path, this.tapes].flatMap((folder) =>
      readdirSync(folder)
        .filter(isOwn)
        .map((name) => join(folder, name)),
    );
  }

  /** The hashes of the blobs that are there, and temporary files beside them. */
  storedBlobs(): string[] {
    const parts = readdirSync(this.blobs).filter((name) => /^[0-9a-f]{2}$/.test(name));
    return parts.flatMap((part) => readdirSync(join(this.blobs, part)));
  }

  /**
   * Makes what is missing of a store. Refuses a folder in which there is something else, and does not touch it.
   *
   * @param create create the folder if it does not exist
   */
  prepare(url: string, create = true): void {
    const stat = statSync(this.path, { throwIfNoEntry: false });
    if (!create && !(stat?.isDirectory() && statSync(this.tapes, { throwIfNoEntry: false }))) throw storeNotFound(url);
    if (stat && !stat.isDirectory()) throw notAStore(url, "it is a file, and not a folder");
    if (stat && !this.#isStore()) throw notAStore(url, "there is something else in the folder");
    for (const folder of [this.tapes, this.blobs, this.lock]) mkdirSync(folder, { recursive: true });
  }

  /** Is there nothing but a store, or what is left of one that was being made? */
  #isStore(): boolean {
    const folders = [TAPES, BLOBS, LOCK];
    const there = readdirSync(this.path).filter((name) => !name.startsWith("."));
    const files = [this.commits, this.file(RECORDS_FILE), ...(there.includes(TAPES) ? this.#tapeFiles() : [])];
    const written = files.filter((path) => (statSync(path, { throwIfNoEntry: false })?.size ?? 0) > 0);
    // People may add notes of their own, and a first line may be damaged: one file that says so is enough.
    if (written.length > 0) return written.some(saysItIsOurs);
    const own = [...folders, COMMITS, `${RECORDS_FILE}${EXTENSION}`];
    return there.every((name) => own.includes(name) || targetOfTemporary(name) === COMMITS);
  }

  #tapeFiles(): string[] {
    return readdirSync(this.tapes)
      .filter(isTapeFile)
      .map((name) => join(this.tapes, name));
  }
}

/** People may keep files of their own beside it. */
function isTapeFile(name: string): boolean {
  return /^[th]-/.test(name) && name.endsWith(EXTENSION);
}

function saysItIsOurs(path: string): boolean {
  const handle = openSync(path, "r");
  try {
    return readHeader(handle) !== undefined;
  } finally {
    closeSync(handle);
  }
}

function notAStore(url: string, why: string): SavepointError<"NOT_A_STORE"> {
  return new SavepointError("NOT_A_STORE", `Cannot open ${url}: ${why}. Give an empty folder, or one that is a store.`);
}
