/**
 * A queue of lines that are kept until all of them are known: in memory first, then in a private temporary file. The file is encrypted
 * with a key that only this process has, because the bundle or the store may be encrypted, and the disk keeps what was deleted.
 */
import { type Cipher, createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { type FileHandle, mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { linesOf } from "./format.js";

/** Bytes that are kept in memory. */
const MAX_MEMORY = 16 * 2 ** 20;

/** Nothing but this process reads the file, so it is not authenticated. */
const CIPHER = "aes-256-ctr";
const KEY_BYTES = 32;
const COUNTER = Buffer.alloc(16);

/** Lines in the order in which they were added. They can be read any number of times. */
export class Spool {
  #lines: Buffer[] = [];
  #bytes = 0;
  #written = 0;
  #file: FileHandle | undefined;
  /** A new one whenever the file is written from its start: a key encrypts each position only once. */
  #key = randomBytes(KEY_BYTES);
  #cipher: Cipher | undefined;

  async add(line: Buffer): Promise<void> {
    this.#lines.push(Buffer.from(line));
    this.#bytes += line.length;
    if (this.#bytes <= MAX_MEMORY) return;
    this.#file ??= await openTemporary();
    this.#cipher ??= createCipheriv(CIPHER, this.#key, COUNTER);
    const bytes = this.#cipher.update(Buffer.concat(this.#lines.flatMap((each) => [each, NEWLINE])));
    for (let from = 0; from < bytes.length;) {
      const { bytesWritten } = await this.#file.write(bytes, from, bytes.length - from, this.#written);
      from += bytesWritten;
      this.#written += bytesWritten;
    }
    [this.#lines, this.#bytes] = [[], 0];
  }

  /** Removes all lines. */
  clear(): void {
    [this.#lines, this.#bytes, this.#written] = [[], 0, 0];
    [this.#key, this.#cipher] = [randomBytes(KEY_BYTES), undefined];
  }

  async *lines(): AsyncGenerator<Buffer> {
    if (this.#file && this.#written > 0) {
      yield* linesOf(this.#decrypted(this.#file));
    }
    yield* this.#lines;
  }

  async *#decrypted(file: FileHandle): AsyncGenerator<Uint8Array> {
    const decipher = createDecipheriv(CIPHER, this.#key, COUNTER);
    const stream = file.createReadStream({ start: 0, end: this.#written - 1, autoClose: false });
    for await (const chunk of stream as AsyncIterable<Buffer>) yield decipher.update(chunk);
  }

  async close(): Promise<void> {
    await this.#file?.close();
  }
}

const NEWLINE = Buffer.from("\n");

/** A file without a name: no other process can open it, and it is gone when this process ends. */
async function openTemporary(): Promise<FileHandle> {
  const folder = await mkdtemp(join(tmpdir(), "savepoint-import-"));
  try {
    return await open(join(folder, "lines"), "wx+", 0o600);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
