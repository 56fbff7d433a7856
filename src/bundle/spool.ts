/** A queue of lines that are kept until all of them are known: in memory first, then in a private temporary file. */
import { type FileHandle, mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { linesOf } from "./format.js";

/** Bytes that are kept in memory. */
const MAX_MEMORY = 16 * 2 ** 20;

/** Lines in the order in which they were added. They can be read any number of times. */
export class Spool {
  #lines: Buffer[] = [];
  #bytes = 0;
  #written = 0;
  #file: FileHandle | undefined;

  async add(line: Buffer): Promise<void> {
    this.#lines.push(Buffer.from(line));
    this.#bytes += line.length;
    if (this.#bytes <= MAX_MEMORY) return;
    this.#file ??= await openTemporary();
    const bytes = Buffer.concat(this.#lines.flatMap((each) => [each, NEWLINE]));
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
  }

  async *lines(): AsyncGenerator<Buffer> {
    if (this.#file && this.#written > 0) {
      const end = this.#written - 1;
      yield* linesOf(this.#file.createReadStream({ start: 0, end, autoClose: false }) as AsyncIterable<Uint8Array>);
    }
    yield* this.#lines;
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
