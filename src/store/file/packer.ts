/**
 * Writes files anew without the lines that are not true any more, each in the place of the old one.
 *
 * Compacting yields to the event loop while it holds the lock, and shows signs of life. If another process takes over the
 * lock nevertheless, it removes the temporary file before it reads anything, and the old file stays in its place.
 *
 * A line by which something went must stay as long as an older line in any file says that it is there. So it takes two
 * rounds: the first leaves out what is dead, in all files; the second what says so.
 */
import { rmSync } from "node:fs";
import type { DiskOptions } from "../contract/index.js";
import { testHooksOf } from "../shared/index.js";
import type { StoreAccess } from "./access.js";
import type { BlobFiles } from "./blob-files.js";
import type { LocatedLine } from "./catalog.js";
import { type DataFile, headerLine, newDataFile, readLines } from "./data-file.js";
import { type LineHead, isRemoval, type CommitFooter, summarizeHeads, encodeLine } from "./lines.js";
import type { LogEntry } from "./log-lines.js";
import { replaceFile, runSlices, syncFolder } from "../../util/index.js";
import { scanFile } from "./file-scan.js";

/** Lines, and bytes, that share a last line. */
const CHUNK_LINES = 64;
const CHUNK_BYTES = 1 << 18;

export class Packer {
  readonly #access: StoreAccess;
  readonly #blobs: BlobFiles;
  readonly #probe: (point: string) => void;

  constructor(access: StoreAccess, blobs: BlobFiles, options: DiskOptions) {
    this.#access = access;
    this.#blobs = blobs;
    this.#probe = testHooksOf(options).probe ?? (() => {});
  }

  /** Damaged lines are left out once nothing is lost by them any more; until then somebody may want to look at them. */
  async compact(): Promise<void> {
    const { contents, lock } = this.#access;
    const start = await this.#access.exclusive(() => contents.catalog.lastCommit);
    let isAll = true;
    await this.#everyFile(async (file) => {
      const keeps = file.isDamaged && contents.catalog.hasLostEntries(file);
      if (keeps) isAll = false;
      else if (file.deadBytes > 0 || file.isDamaged) await this.compactFile(file, 0);
    });
    await this.#everyFile(async (file) => {
      if (isAll && file.removals.some(({ at }) => at <= start)) await this.compactFile(file, start);
    });
    await this.#access.exclusive(async () => {
      this.#blobs.removeUnreferenced(lock);
      await runSlices(contents.rewriteLog(lock));
      contents.problems = contents.problems.filter(({ file }) => contents.files.has(file));
    });
  }

  async #everyFile(work: (file: DataFile) => Promise<void>): Promise<void> {
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
    try {
      await this.#replace(file, goneBefore);
    } catch (error) {
      // The new file may have taken the place of the old one already.
      this.#access.invalidate();
      this.#access.lock.assertHeld();
      throw error;
    }
  }

  async #replace(file: DataFile, goneBefore: number): Promise<void> {
    const { contents, lock } = this.#access;
    const commit = ++contents.catalog.lastCommit;
    const next = newDataFile(file.name, file.path, commit);
    const found: LocatedLine[] = [];
    lock.assertHeld();
    await contents.handles.using(file, (handle) =>
      replaceFile(file.path, this.#pack(file, handle, next, goneBefore, found), (point) => {
        this.#probe(point);
        // Others must not find what was written without the lock.
        if (point === "replace:written") lock.assertHeld();
      }),
    );
    const isEmpty = found.length === 0;
    const { generation, size } = next;
    const holds = summarizeHeads(found.map(({ head }) => head));
    const entry: LogEntry = { file: file.name, generation, size, commit, ...contents.writer, holds, all: true };
    next.lastCommit = commit;
    contents.replace(next);
    contents.apply(found);
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

  /** The bytes of the new file. What is in it is noted in `kept`. */
  *#pack(file: DataFile, handle: number, next: DataFile, goneBefore: number, kept: LocatedLine[]): Generator<Buffer> {
    const { contents } = this.#access;
    let texts: Buffer[] = [];
    let heads: LineHead[] = [];
    let bytes = 0;
    const write = (text: Buffer): void => {
      texts.push(text);
      bytes += text.length;
      next.size += text.length;
    };
    const finish = (): Buffer => {
      const seal: CommitFooter = { commit: next.generation, ...contents.writer, holds: summarizeHeads(heads) };
      write(Buffer.from(encodeLine(seal)));
      const chunk = Buffer.concat(texts);
      [texts, heads, bytes] = [[], [], 0];
      return chunk;
    };
    const keep = (head: LineHead, line: Buffer | undefined): void => {
      kept.push({ file: next, offset: next.size, length: line?.length ?? 0, head });
      heads.push(head);
      if (line) write(line);
    };
    write(Buffer.from(headerLine(file.name, next.generation)));
    const scanned = scanFile(file, handle, { from: 0, to: file.size, fences: contents.fences });
    const wanted = new Map<number, LocatedLine>();
    const lost: LocatedLine[] = [];
    for (const found of [...scanned.committed, ...scanned.uncommitted]) {
      if (!this.#isKept(found, goneBefore)) continue;
      if (found.length > 0) wanted.set(found.offset, found);
      else lost.push(found);
    }
    const isFull = (): boolean => heads.length >= CHUNK_LINES || bytes >= CHUNK_BYTES;
    for (const { offset, bytes: line } of readLines(handle, 0, file.size)) {
      const found = wanted.get(offset);
      if (!found) continue;
      keep(found.head, Buffer.concat([line, Buffer.from("\n")]));
      if (isFull()) yield finish();
    }
    for (const { head } of lost) {
      // A line without a value is derived from its name; anything else stays recorded as lost.
      keep(head, "put" in head || "item" in head ? undefined : Buffer.from(encodeLine(head)));
      if (isFull()) yield finish();
    }
    if (heads.length > 0 || texts.length > 0) yield finish();
  }

  #isKept(found: LocatedLine, goneBefore: number): boolean {
    const { head } = found;
    return isRemoval(head) ? head.at > goneBefore : this.#access.contents.catalog.isLive(found);
  }
}
