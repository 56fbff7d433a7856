/**
 * Compacts data files: rewrites them without dead lines, each in the place of the old file.
 *
 * Compaction yields to the event loop while it holds the lock, and shows signs of life. If another process takes over the
 * lock nevertheless, that process removes the temporary file before it reads anything, and the old file stays in its place.
 *
 * A removal is needed as long as any file contains an older line about the same thing. So compaction takes two rounds: the
 * first leaves out dead lines in all files, the second leaves out removals.
 */
import { rmSync } from "node:fs";
import { replaceFile, runSlices, syncFolder } from "../../util/index.js";
import type { DiskOptions } from "../contract/index.js";
import { testHooksOf } from "../shared/index.js";
import type { StoreAccess } from "./access.js";
import type { BlobFiles } from "./blob-files.js";
import type { LocatedLine } from "./catalog.js";
import { removeCatalogFile } from "./catalog-file-writer.js";
import type { LogEntry } from "./commit-log.js";
import { type DataFile, headerLine, newDataFile, readLines } from "./data-file.js";
import { scanFile } from "./file-scan.js";
import { type CommitFooter, encodeLine, isRemoval, type LineHead, summarizeHeads } from "./lines.js";

/** The most lines and bytes of a commit in a compacted file. */
const COMMIT_LINES = 64;
const COMMIT_BYTES = 1 << 18;

export class FilePacker {
  readonly #access: StoreAccess;
  readonly #blobs: BlobFiles;
  readonly #probe: (point: string) => void;

  constructor(access: StoreAccess, blobs: BlobFiles, options: DiskOptions) {
    this.#access = access;
    this.#blobs = blobs;
    this.#probe = testHooksOf(options).probe ?? (() => {});
  }

  /**
   * Compacts all files, removes unreferenced blobs, and shortens the commit log. A file with damaged lines is kept as it is
   * while any of them is lost, so that a user can inspect it.
   *
   * @returns the names of the damaged files that were kept
   */
  async compact(): Promise<string[]> {
    const { contents, lock } = this.#access;
    const start = await this.#access.exclusive(() => contents.catalog.lastCommit);
    const kept: string[] = [];
    await this.#everyFile(async (file) => {
      if (file.isDamaged && contents.catalog.hasLostEntries(file)) kept.push(file.name);
      else if (file.deadBytes > 0 || file.isDamaged) await this.compactFile(file, 0);
    });
    await this.#everyFile(async (file) => {
      if (kept.length === 0 && file.removals.some(({ at }) => at <= start)) await this.compactFile(file, start);
    });
    await this.#access.exclusive(async () => {
      this.#blobs.removeUnreferenced(lock);
      await runSlices(contents.rewriteLog(lock));
      contents.problems = contents.problems.filter(({ file }) => contents.files.has(file));
    });
    return kept;
  }

  async #everyFile(work: (file: DataFile) => Promise<void>): Promise<void> {
    const { contents } = this.#access;
    for (const name of contents.files.keys()) {
      // The lock is released after each file, so that other writers do not have to wait for all of them.
      await this.#access.exclusive(async () => {
        const file = contents.files.get(name);
        if (file) await work(file);
      });
    }
  }

  /**
   * Compacts one file. The lock is held.
   *
   * @param removalsUntil removals of commits up to this number are left out
   */
  async compactFile(file: DataFile, removalsUntil: number): Promise<void> {
    try {
      await this.#replace(file, removalsUntil);
    } catch (error) {
      // The new file may already be in the place of the old one.
      this.#access.invalidate();
      this.#access.lock.assertHeld();
      throw error;
    }
  }

  async #replace(file: DataFile, removalsUntil: number): Promise<void> {
    const { contents, lock } = this.#access;
    const commit = contents.catalog.nextCommit;
    contents.catalog.lastCommit = commit;
    const next = newDataFile(file.name, file.path, commit);
    const kept: LocatedLine[] = [];
    removeCatalogFile(contents.folder, lock);
    await contents.handles.using(file, (handle) =>
      replaceFile(
        file.path,
        this.#compactedBytes(file, handle, next, removalsUntil, kept),
        (point) => {
          this.#probe(point);
          // Other processes must not read a file that was written without the lock.
          if (point === "replace:written") lock.assertHeld();
        },
        contents.folder.mode,
      ),
    );
    const isEmpty = kept.length === 0;
    const { generation, size } = next;
    const holds = summarizeHeads(kept.map(({ head }) => head));
    const entry: LogEntry = { file: file.name, generation, size, commit, ...contents.writer, holds, all: true };
    next.lastCommit = commit;
    contents.replace(next);
    contents.catalog.applyAll(kept);
    next.deadBytes = 0;
    lock.assertHeld();
    contents.log.append([isEmpty ? { ...entry, removed: true } : entry], () => lock.isHeld);
    this.#probe("compact:logged");
    if (!isEmpty) return;
    contents.remove(next);
    lock.assertHeld();
    rmSync(file.path, { force: true });
    await syncFolder(contents.folder.folderOf(file.name));
  }

  /** The bytes of the new file. Its lines are added to `kept`. */
  *#compactedBytes(
    file: DataFile,
    handle: number,
    next: DataFile,
    removalsUntil: number,
    kept: LocatedLine[],
  ): Generator<Buffer> {
    const { contents } = this.#access;
    let texts: Buffer[] = [];
    let heads: LineHead[] = [];
    let bytes = 0;
    const write = (text: Buffer): void => {
      texts.push(text);
      bytes += text.length;
      next.size += text.length;
    };
    const finishCommit = (): Buffer => {
      const footer: CommitFooter = { commit: next.generation, ...contents.writer, holds: summarizeHeads(heads) };
      write(Buffer.from(encodeLine(footer)));
      const commit = Buffer.concat(texts);
      [texts, heads, bytes] = [[], [], 0];
      return commit;
    };
    const keep = (head: LineHead, line: Buffer | undefined): void => {
      kept.push({ file: next, offset: next.size, length: line?.length ?? 0, head });
      heads.push(head);
      if (line) write(line);
    };
    write(Buffer.from(headerLine(file.name, next.generation)));
    const scan = scanFile(file, handle, { from: 0, to: file.size, fences: contents.fences });
    const live = new Map<number, LocatedLine>();
    const lost: LocatedLine[] = [];
    for (const line of [...scan.committed, ...scan.uncommitted]) {
      if (!this.#isKept(line, removalsUntil)) continue;
      if (line.length > 0) live.set(line.offset, line);
      else lost.push(line);
    }
    const isFull = (): boolean => heads.length >= COMMIT_LINES || bytes >= COMMIT_BYTES;
    for (const { offset, bytes: text } of readLines(handle, 0, file.size)) {
      const line = live.get(offset);
      if (!line) continue;
      keep(line.head, Buffer.concat([text, Buffer.from("\n")]));
      if (isFull()) yield finishCommit();
    }
    for (const { head } of lost) {
      // A line without a value can be encoded again from its head; anything else stays recorded as lost.
      keep(head, "put" in head || "item" in head ? undefined : Buffer.from(encodeLine(head)));
      if (isFull()) yield finishCommit();
    }
    if (heads.length > 0 || texts.length > 0) yield finishCommit();
  }

  #isKept(line: LocatedLine, removalsUntil: number): boolean {
    const { head } = line;
    return isRemoval(head) ? head.at > removalsUntil : this.#access.contents.catalog.isLive(line);
  }
}
