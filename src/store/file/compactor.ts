/**
 * Writes files anew without the lines that are not true any more, each in the place of the old one.
 *
 * A line by which something went must stay as long as an older line in any file says that it is there. So it takes two
 * rounds: the first leaves out what is dead, in all files; the second what says so.
 */
import { rm } from "node:fs/promises";
import type { DiskOptions } from "../options.js";
import type { Access } from "./access.js";
import type { BlobFiles } from "./blob-files.js";
import type { Found } from "./catalog.js";
import { type DataFile, headerLine, newDataFile, readLines } from "./data-file.js";
import { type Head, parseLine, type Seal, singleHeads, toHolds, toLine } from "./lines.js";
import type { LogEntry } from "./log-lines.js";
import { replaceFile, syncFolder } from "../replace-file.js";

/** Lines, and bytes, that share a last line. */
const CHUNK_LINES = 64;
const CHUNK_BYTES = 1 << 18;

export class Compactor {
  readonly #access: Access;
  readonly #blobs: BlobFiles;
  readonly #probe: (point: string) => void;

  constructor(access: Access, blobs: BlobFiles, options: DiskOptions) {
    this.#access = access;
    this.#blobs = blobs;
    this.#probe = options.probe ?? (() => {});
  }

  async compact(): Promise<void> {
    const { contents } = this.#access;
    const start = await this.#access.exclusive(async () => contents.catalog.lastCommit);
    await this.#everyFile((file) => (this.#isWorthwhile(file) ? this.compactFile(file, 0) : undefined));
    await this.#everyFile((file) => (file.oldestGone <= start ? this.compactFile(file, start) : undefined));
    await this.#access.exclusive(async () => {
      await this.#blobs.tidy();
      await contents.log.rewrite([...contents.files.values()].flatMap(({ last }) => last ?? []));
      contents.problems = contents.problems.filter(({ file }) => contents.files.has(file));
    });
  }

  /** Damaged lines are left out once nothing is lost by them any more; until then somebody may want to look at them. */
  #isWorthwhile(file: DataFile): boolean {
    if (!file.damaged) return file.dead > 0;
    return !this.#access.contents.catalog.hasLost(file);
  }

  async #everyFile(work: (file: DataFile) => Promise<void> | undefined): Promise<void> {
    const { contents } = this.#access;
    for (const name of contents.files.keys()) {
      // One at a time, so that nobody has to wait for all of them.
      await this.#access.exclusive(async () => {
        const file = contents.files.get(name);
        if (file) await work(file);
      });
    }
  }

  /**
   * Writes a file anew. The lock is held.
   *
   * @param goneBefore lines up to this commit by which something went are left out
   */
  async compactFile(file: DataFile, goneBefore: number): Promise<void> {
    const { contents, lock } = this.#access;
    const commit = ++contents.catalog.lastCommit;
    const next = newDataFile(file.name, file.path, commit);
    const kept: Kept = { found: [], holds: [] };
    lock.check();
    await contents.handles.using(file, (handle) =>
      replaceFile(file.path, this.#pack(file, handle, next, goneBefore, kept), this.#probe),
    );
    const isEmpty = kept.found.length === 0;
    const { generation, size } = next;
    const entry: LogEntry = { file: file.name, generation, size, commit, holds: kept.holds };
    if (!isEmpty) next.last = entry;
    contents.replace(next);
    for (const each of kept.found) contents.catalog.apply(each);
    next.dead = 0;
    contents.log.append([isEmpty ? { ...entry, removed: true } : entry]);
    this.#probe("compact:logged");
    if (!isEmpty) return;
    contents.remove(next);
    await rm(file.path, { force: true });
    await syncFolder(contents.folder.folderOf(file.name));
  }

  /** The bytes of the new file. What is in it is noted in `kept`. */
  *#pack(file: DataFile, handle: number, next: DataFile, goneBefore: number, kept: Kept): Generator<Buffer> {
    let texts: Buffer[] = [];
    let heads: Head[] = [];
    let bytes = 0;
    const write = (text: Buffer): void => {
      texts.push(text);
      bytes += text.length;
      next.size += text.length;
    };
    const finish = (): Buffer => {
      kept.holds = toHolds(heads);
      const seal: Seal = { commit: next.generation, holds: kept.holds };
      write(Buffer.from(toLine(seal)));
      const chunk = Buffer.concat(texts);
      [texts, heads, bytes] = [[], [], 0];
      return chunk;
    };
    write(Buffer.from(headerLine(file.name, next.generation)));
    for (const { offset, bytes: line, ends } of readLines(handle, 0, file.size)) {
      const fields = ends ? parseLine(line)?.fields : undefined;
      if (!fields || "savepoint" in fields) continue;
      if ("commit" in fields) {
        for (const head of this.#lost(file, fields as unknown as Seal)) {
          kept.found.push({ file: next, offset: next.size, length: 0, head });
          heads.push(head);
        }
      } else {
        const head = fields as unknown as Head;
        const length = line.length + 1;
        if (!this.#isKept({ file, offset, length, head }, goneBefore)) continue;
        kept.found.push({ file: next, offset: next.size, length, head });
        heads.push(head);
        write(Buffer.concat([line, Buffer.from("\n")]));
      }
      if (heads.length >= CHUNK_LINES || bytes >= CHUNK_BYTES) yield finish();
    }
    if (heads.length > 0 || texts.length > 0) yield finish();
  }

  #isKept(found: Found, goneBefore: number): boolean {
    const { head } = found;
    const isGone = "delete" in head || "free" in head || "drop" in head;
    return isGone ? head.at > goneBefore : this.#access.contents.catalog.isLive(found);
  }

  /** What the last line of a commit names, and is known to be lost. It stays known. */
  *#lost(file: DataFile, seal: Seal): Generator<Head> {
    const { catalog } = this.#access.contents;
    for (const head of singleHeads(seal.holds)) {
      const entry =
        "put" in head ? catalog.record(head.put) : "item" in head ? catalog.item(head.tape, head.item) : undefined;
      if (entry?.length === 0 && entry.file === file && entry.at === head.at) yield head;
    }
  }
}

interface Kept {
  readonly found: Found[];
  holds: readonly Head[];
}
