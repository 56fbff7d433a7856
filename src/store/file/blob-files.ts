/** Blobs: each a file of its own, named after its hash, in one of 256 folders. */
import { existsSync } from "node:fs";
import { mkdir, readFile, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { hashBytes } from "../../state/clone.js";
import type { Unreadable } from "../store.js";
import type { Contents } from "./contents.js";
import { isMissing } from "./failure.js";
import { replaceFile, syncFolder, TEMPORARY } from "../replace-file.js";

/** A file that no commit names may be about to be named by one. */
const AGE = 3_600_000;

export class BlobFiles {
  readonly #contents: Contents;

  constructor(contents: Contents) {
    this.#contents = contents;
  }

  isThere(hash: string): boolean {
    return existsSync(this.#contents.folder.blob(hash));
  }

  async read(hash: string): Promise<Uint8Array | Unreadable> {
    if (!this.#contents.catalog.blob(hash)) return { unreadable: `blob ${hash} is missing` };
    const bytes = await this.#bytes(hash);
    if (!bytes) return { unreadable: `blob ${hash} is missing` };
    return hashBytes(bytes) === hash ? bytes : { unreadable: `blob ${hash} is damaged` };
  }

  /** Writes a blob before the commit that names it. Who is told that it is stored must be able to read it. */
  async write(hash: string, bytes: Uint8Array): Promise<void> {
    const known = await this.#bytes(hash);
    if (known && Buffer.compare(known, bytes) === 0) return;
    const path = this.#contents.folder.blob(hash);
    if (await mkdir(dirname(path), { recursive: true })) await syncFolder(this.#contents.folder.blobs);
    await replaceFile(path, [Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)]);
  }

  async remove(hash: string): Promise<void> {
    await rm(this.#contents.folder.blob(hash), { force: true });
  }

  /** Removes files that no commit names. The lock is held. */
  async tidy(): Promise<void> {
    const { folder, catalog } = this.#contents;
    for (const name of folder.storedBlobs()) {
      const path = folder.blob(name);
      if (!name.endsWith(TEMPORARY) && catalog.blob(name)) continue;
      if (Date.now() - (await stat(path)).mtimeMs > AGE) await rm(path, { force: true });
    }
  }

  async #bytes(hash: string): Promise<Buffer | undefined> {
    try {
      return await readFile(this.#contents.folder.blob(hash));
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }
}
