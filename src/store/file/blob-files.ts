/** Blobs: each a file of its own, named after its hash, in one of 256 folders. */
import { existsSync, rmSync, statSync } from "node:fs";
import { mkdir, readFile, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { gunzip, gzip } from "node:zlib";
import { hashBytes } from "../../state/index.js";
import type { Unreadable } from "../contract/index.js";
import type { StoreContents, HeldLock } from "./contents.js";
import { isMissingFileError, replaceFile, syncFolder } from "../../util/index.js";

/** A file that no commit names may be about to be named by one. */
const AGE = 3_600_000;
/** Others can unpack it too. */
const PACKED = ".gz";
/** Smaller ones gain too little to be worth unpacking; and what they must shrink to. */
const MIN_BYTES = 512;
const MAX_RATIO = 0.8;

export class BlobFiles {
  readonly #contents: StoreContents;

  constructor(contents: StoreContents) {
    this.#contents = contents;
  }

  has(hash: string): boolean {
    return this.#paths(hash).some((path) => existsSync(path));
  }

  hasAll(hashes: Iterable<string>): boolean {
    for (const hash of hashes) if (!this.has(hash)) return false;
    return true;
  }

  async read(hash: string): Promise<Uint8Array | Unreadable> {
    const found = this.#contents.catalog.blob(hash) && (await this.#bytes(hash));
    // If the folder itself is missing, for example because a volume is not mounted, this throws: the blob is not lost.
    if (!found) await stat(this.#contents.folder.path);
    return found ?? { unreadable: `blob ${hash} is missing` };
  }

  /**
   * Writes a blob before the commit that refers to it. That commit must check that the blob exists once the lock is held.
   *
   * @returns how many bytes it takes
   */
  async write(hash: string, bytes: Uint8Array): Promise<number> {
    const [plain, packed] = this.#paths(hash);
    const body = await pack(bytes);
    const known = await this.#bytes(hash);
    if (known && !("unreadable" in known)) {
      // If no commit refers to it, another process may have just written it, and its name may not be durable yet.
      if (!this.#contents.catalog.blob(hash)) {
        await syncFolder(dirname(plain));
        await syncFolder(this.#contents.folder.blobs);
      }
      return body?.length ?? bytes.length;
    }
    if (await mkdir(dirname(plain), { recursive: true })) await syncFolder(this.#contents.folder.blobs);
    await replaceFile(body ? packed : plain, [body ?? bytes]);
    await rm(body ? plain : packed, { force: true });
    return body?.length ?? bytes.length;
  }

  /** Removes a blob. The lock is held. */
  remove(hash: string, lock: HeldLock): void {
    lock.assertHeld();
    for (const path of this.#paths(hash)) rmSync(path, { force: true });
  }

  /** Removes files that no commit names. The lock is held. */
  removeUnreferenced(lock: HeldLock): void {
    const { folder, catalog } = this.#contents;
    for (const name of folder.storedBlobs()) {
      const path = folder.blob(name);
      if (catalog.blob(name.endsWith(PACKED) ? name.slice(0, -PACKED.length) : name)) continue;
      const age = Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Infinity);
      if (age <= AGE) continue;
      lock.assertHeld();
      lock.refresh();
      rmSync(path, { force: true });
    }
  }

  /** As it is, or packed. */
  #paths(hash: string): [plain: string, packed: string] {
    const plain = this.#contents.folder.blob(hash);
    return [plain, `${plain}${PACKED}`];
  }

  /** Its bytes, or why they cannot be had; `undefined` if there is no file. */
  async #bytes(hash: string): Promise<Uint8Array | Unreadable | undefined> {
    let damage: Unreadable | undefined;
    for (const path of this.#paths(hash)) {
      try {
        const found = await readFile(path);
        const bytes = path.endsWith(PACKED) ? await promisify(gunzip)(found) : found;
        if (hashBytes(bytes) === hash) return bytes;
        damage = { unreadable: `blob ${hash} is damaged` };
      } catch (error) {
        if (isMissingFileError(error)) continue;
        // Of the file system; anything else is said by what unpacks it.
        if ((error as NodeJS.ErrnoException).syscall !== undefined) throw error;
        damage = { unreadable: `blob ${hash} is damaged: ${(error as Error).message}` };
      }
    }
    return damage;
  }
}

/** Packed, where that makes it a fifth smaller or more. */
async function pack(bytes: Uint8Array): Promise<Uint8Array | undefined> {
  if (bytes.length < MIN_BYTES) return undefined;
  const packed = await promisify(gzip)(bytes, { level: 1 });
  return packed.length <= bytes.length * MAX_RATIO ? packed : undefined;
}
