/** The files of blobs: one for each, named after its hash, in one of 256 folders. */
import { lstatSync, rmSync } from "node:fs";
import { rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { gunzip, gzip, type ZlibOptions } from "node:zlib";
import { hashBytes } from "../../state/index.js";
import type { Unreadable } from "../contract/index.js";
import { createFolders, isMissingFileError, readRegularFile, replaceFile, syncFolder } from "../../util/index.js";
import { maxDecompressedSize } from "../shared/index.js";
import type { StoreContents } from "./contents.js";
import { COMPRESSED } from "./folder.js";
import type { HeldLock } from "./lock.js";

/** A file that no commit refers to is removed when it is older than this, in milliseconds: a commit may be about to. */
const MIN_AGE = 3_600_000;
/** Smaller blobs are not compressed. */
const MIN_BYTES = 512;
/** A blob is compressed if that makes it at most this fraction of its size. */
const MAX_RATIO = 0.8;

export class BlobFiles {
  readonly #contents: StoreContents;

  constructor(contents: StoreContents) {
    this.#contents = contents;
  }

  has(hash: string): boolean {
    return this.#paths(hash).some((path) => lstatSync(path, { throwIfNoEntry: false })?.isFile());
  }

  hasAll(hashes: Iterable<string>): boolean {
    for (const hash of hashes) if (!this.has(hash)) return false;
    return true;
  }

  async read(hash: string): Promise<Uint8Array | Unreadable> {
    const result = this.#contents.catalog.blob(hash) && (await this.#readFile(hash));
    // If the folder itself is missing, for example because a volume is not mounted, this throws: the blob is not lost.
    if (!result) await stat(this.#contents.folder.path);
    return result ?? { unreadable: `blob ${hash} is missing` };
  }

  /**
   * Writes a blob before the commit that refers to it. That commit must check that the blob exists once the lock is held.
   *
   * @returns its size on the disk, in bytes
   */
  async write(hash: string, bytes: Uint8Array): Promise<number> {
    const [plain, compressed] = this.#paths(hash);
    const body = await compress(bytes);
    const existing = await this.#readFile(hash);
    if (existing && !("unreadable" in existing)) {
      // If no commit refers to it, another process may have just written it, and its name may not be durable yet.
      if (!this.#contents.catalog.blob(hash)) {
        await syncFolder(dirname(plain));
        await syncFolder(this.#contents.folder.blobs);
      }
      return body?.length ?? bytes.length;
    }
    const { folder } = this.#contents;
    if (createFolders(dirname(plain), folder.mode)) await syncFolder(folder.blobs);
    await replaceFile(body ? compressed : plain, [body ?? bytes], undefined, folder.mode);
    await rm(body ? plain : compressed, { force: true });
    return body?.length ?? bytes.length;
  }

  /** Removes a blob. The lock is held. */
  remove(hash: string, lock: HeldLock): void {
    lock.assertHeld();
    for (const path of this.#paths(hash)) rmSync(path, { force: true });
  }

  /** Removes files that no commit refers to. The lock is held. */
  removeUnreferenced(lock: HeldLock): void {
    const { folder, catalog } = this.#contents;
    for (const { path, hash } of folder.storedBlobs()) {
      if (catalog.blob(hash)) continue;
      const age = Date.now() - (lstatSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Infinity);
      if (age <= MIN_AGE) continue;
      lock.assertHeld();
      lock.refresh();
      rmSync(path, { force: true });
    }
  }

  #paths(hash: string): [plain: string, compressed: string] {
    const plain = this.#contents.folder.blob(hash);
    return [plain, `${plain}${COMPRESSED}`];
  }

  /** Reads and verifies a blob; `undefined` if it has no file. */
  async #readFile(hash: string): Promise<Uint8Array | Unreadable | undefined> {
    let damage: Unreadable | undefined;
    for (const path of this.#paths(hash)) {
      try {
        const content = await readRegularFile(path);
        const bytes = path.endsWith(COMPRESSED) ? await decompress(content) : content;
        if (hashBytes(bytes) === hash) return bytes;
        damage = { unreadable: `blob ${hash} is damaged` };
      } catch (error) {
        if (isMissingFileError(error)) continue;
        // Errors of the file system are thrown; others mean that the compressed bytes are damaged.
        if ((error as NodeJS.ErrnoException).syscall !== undefined) throw error;
        damage = { unreadable: `blob ${hash} is damaged: ${(error as Error).message}` };
      }
    }
    return damage;
  }
}

/** The compressed bytes; `undefined` if compression saves too little, or if readers would reject them. */
async function compress(bytes: Uint8Array): Promise<Uint8Array | undefined> {
  if (bytes.length < MIN_BYTES) return undefined;
  const compressed = await promisify(gzip)(bytes, { level: 1 });
  const { length } = compressed;
  const pays = length <= bytes.length * MAX_RATIO && bytes.length <= maxDecompressedSize(length);
  return pays ? compressed : undefined;
}

function decompress(bytes: Uint8Array): Promise<Uint8Array> {
  return promisify<Uint8Array, ZlibOptions, Buffer>(gunzip)(bytes, {
    maxOutputLength: maxDecompressedSize(bytes.length),
  });
}
