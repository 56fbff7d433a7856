/**
 * The store-wide list of commits: which file each was written to, how long that file was then, and the names in it once
 * more. A line is added after its commit is durable, so it says two things: to other processes, where there is something
 * new; and to whoever opens the store after a crash, how much was acknowledged. What a file lacks of that is lost; what it
 * has beyond that may be unfinished.
 *
 * The list itself need not be durable: what it lacks the files say themselves.
 */
import { closeSync, fdatasyncSync, openSync, readFileSync, statSync } from "node:fs";
import { headerLine, readBytes, truncate, writeBytes } from "./data-file.js";
import { isMissing } from "../file-failure.js";
import { FORMAT, parseLine, splitLines, toLine } from "./lines.js";
import type { LogLine } from "./log-lines.js";
import { replaceFile } from "../replace-file.js";

export interface ReadLog {
  /** The version that wrote it. */
  readonly format: number;
  readonly lines: readonly LogLine[];
  /** Whether all of its lines are good. */
  readonly whole: boolean;
}

/** What was added to the list; or all of it. */
export interface News {
  readonly lines: readonly LogLine[];
  /** Then what it does not name is gone. */
  readonly isAll: boolean;
  /** Notes that it has been dealt with. */
  readonly take: () => void;
}

const NAME = "commits";
/** A shorter list is not worth writing anew; nor is one that would not become much shorter. */
const LONG = 1 << 20;
const MUCH_LONGER = 8;

export class CommitLog {
  readonly path: string;
  #identity = "";
  #size = 0;
  #generation = 0;
  #shortest = 0;

  constructor(path: string) {
    this.path = path;
  }

  get size(): number {
    return this.#size;
  }

  /** Is it several times as long as it was when it was written anew? */
  get isLong(): boolean {
    return this.#size > Math.max(LONG, this.#shortest * MUCH_LONGER);
  }

  /** Reads all of it; `undefined` where there is none. */
  readAll(): ReadLog | undefined {
    let bytes: Buffer;
    try {
      bytes = readFileSync(this.path);
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
    const read = parseLog(bytes);
    this.#generation = read.generation ?? this.#generation;
    this.#know(bytes.length);
    return read;
  }

  /** What others have added since it was last read; all of it, if it was written anew. */
  readNews(): News {
    const stat = statSync(this.path, { throwIfNoEntry: false });
    const identity = stat ? identityOf(stat) : "";
    const from = stat && identity === this.#identity && stat.size >= this.#size ? this.#size : 0;
    if (!stat || stat.size === from) return { lines: [], isAll: false, take: () => {} };
    const handle = openSync(this.path, "r");
    try {
      const { lines, end } = parseLog(readBytes(handle, from, stat.size - from));
      const take = (): void => void ([this.#identity, this.#size] = [identity, from + end]);
      return { lines, isAll: from === 0, take };
    } finally {
      closeSync(handle);
    }
  }

  /** Adds lines. Only who holds the lock, and has read all of it, may. */
  append(lines: readonly LogLine[], sync = false): void {
    if (lines.length === 0) return;
    const bytes = Buffer.from(lines.map(toLine).join(""));
    const handle = openSync(this.path, "r+");
    try {
      writeBytes(handle, bytes, this.#size);
      if (sync) fdatasyncSync(handle);
      this.#size += bytes.length;
    } catch (error) {
      // A full disk may have taken some of the lines: others must not believe them.
      truncate(handle, this.#size);
      throw error;
    } finally {
      closeSync(handle);
    }
  }

  /** Writes it anew. */
  async rewrite(lines: readonly LogLine[]): Promise<void> {
    const text = headerLine(NAME, ++this.#generation) + lines.map(toLine).join("");
    await replaceFile(this.path, [Buffer.from(text)]);
    this.#know(Buffer.byteLength(text));
    this.#shortest = this.#size;
  }

  #know(size: number): void {
    this.#identity = identityOf(statSync(this.path));
    this.#size = size;
  }
}

/** Tells a file from the one that took its place. */
function identityOf({ ino, birthtimeMs }: { ino: number; birthtimeMs: number }): string {
  return `${ino} ${birthtimeMs}`;
}

function parseLog(bytes: Buffer): {
  lines: LogLine[];
  whole: boolean;
  end: number;
  generation: number | undefined;
  format: number;
} {
  const lines: LogLine[] = [];
  let whole = true;
  let end = 0;
  let generation: number | undefined;
  let format = FORMAT;
  for (const line of splitLines(bytes, 0)) {
    const fields = line.ends ? parseLine(line.bytes)?.fields : undefined;
    if (!fields) whole = false;
    else if ("savepoint" in fields) [generation, format] = [Number(fields["generation"]), Number(fields["savepoint"])];
    else lines.push(fields as unknown as LogLine);
    if (fields) end = line.offset + line.bytes.length + 1;
  }
  // Where the first line is missing, others may be.
  return { lines, whole: whole && generation !== undefined, end, generation, format };
}
