/**
 * `file:`, a store in a folder of plain files that can be read, searched and kept under version control.
 *
 * Every tape has a data file, to which commits are appended: see lines.ts. Many processes can use the folder: one writes at a
 * time, and each catches up with the commits of the others. Every process keeps the locations of all records and items in
 * memory. Values are read when they are requested, and verified each time.
 */
import { resolve } from "node:path";
import {
  CloseableStore,
  GroupCommit,
  type ListOptions,
  type RecordResult,
  type RetainOptions,
} from "../shared/index.js";
import {
  createFailureReporter,
  busyTimeoutOf,
  fileModeOf,
  type Commit,
  type CommitResult,
  type DiskOptions,
  type Frame,
  type Freed,
  type ItemRefs,
  type ItemSpan,
  type KeyRange,
  type ScrubResult,
  type Store,
  type StoredRanges,
  type StoreProblem,
  type Unreadable,
} from "../contract/index.js";
import { StoreAccess } from "./access.js";
import { Appender, type AppendWork } from "./appender.js";
import { BlobFiles } from "./blob-files.js";
import type { CatalogEntry } from "./catalog.js";
import { updateCatalogFile } from "./catalog-file-writer.js";
import { StoreContents } from "./contents.js";
import type { DataFile } from "./data-file.js";
import { FilePacker } from "./packer.js";
import { IntervalSet, runSlices, type Span, toFileError } from "../../util/index.js";
import { Folder, RECORDS_FILE, tapeFileName } from "./folder.js";
import { FolderLock } from "./lock.js";

import { LineReader } from "./reader.js";
import { FileWriter } from "./writer.js";

/** A file is compacted automatically when more than this many bytes, and more than half of the file, are dead. */
const MIN_DEAD_BYTES = 1 << 20;

/** Options for tests. */
export interface FileStoreInternals {
  /** How long the holder of the lock may be silent before another process takes over the lock, in milliseconds. */
  readonly silence?: number;
  /**
   * Whether a commit is written in two parts, with a probe point in between, if there is a probe.
   * @default true
   */
  readonly tears?: boolean;
  /** Stores with fewer bytes than this have no catalog file. */
  readonly minIndexedBytes?: number;
}

/** Opens a store in a folder. Creates the folder unless `create` is false. Opening an existing store needs no lock. */
export async function openFileStore(
  path: string,
  options: DiskOptions = {},
  internals: FileStoreInternals = {},
): Promise<Store> {
  const url = `file:${path}`;
  try {
    const folder = new Folder(resolve(path), fileModeOf(options));
    folder.prepare(url, options);
    const lock = new FolderLock(folder.lock, url, {
      timeout: busyTimeoutOf(options),
      silence: internals.silence,
      mode: folder.mode,
      report: createFailureReporter(options),
    });
    const access = new StoreAccess(new StoreContents(folder, url, options.readOnly, internals.minIndexedBytes), lock);
    if (folder.isNew && !options.readOnly) await access.exclusive(() => {});
    else await access.read(() => {});
    return new FileStore(access, options, internals);
  } catch (error) {
    throw toFileError(error, url, "Opening");
  }
}

class FileStore extends CloseableStore implements Store {
  readonly url: string;
  readonly capabilities = { durable: true, shared: true };
  readonly #access: StoreAccess;
  readonly #contents: StoreContents;
  readonly #clock: () => number;
  readonly #appender: Appender;
  readonly #blobs: BlobFiles;
  readonly #packer: FilePacker;
  readonly #commits: GroupCommit;
  readonly #report: (message: string, error: unknown) => void;
  #compacting: Promise<void> | undefined;
  #hasWritten = false;

  constructor(access: StoreAccess, options: DiskOptions, { tears = true }: FileStoreInternals) {
    super();
    const { contents } = access;
    this.url = contents.url;
    this.#access = access;
    this.#contents = contents;
    this.#clock = options.now ?? Date.now;
    this.#report = createFailureReporter(options);
    this.#appender = new Appender(access, options, tears);
    this.#blobs = new BlobFiles(contents);
    this.#packer = new FilePacker(access, this.#blobs, options);
    const writer = new FileWriter(access, this.#appender, this.#blobs, options);
    this.#commits = new GroupCommit(async (commits) => {
      this.#hasWritten = true;
      const outcomes = await writer.apply(commits);
      this.#compacting ??= this.#compactInBackground().finally(() => (this.#compacting = undefined));
      return outcomes;
    });
  }

  async get(keys: readonly string[]): Promise<(RecordResult | undefined)[]> {
    return this.#read((reader) =>
      keys.map((key) => {
        const entry = this.#contents.catalog.record(key);
        return entry && reader.record(key, entry);
      }),
    );
  }

  async list(range: KeyRange, { limit, reverse = false }: ListOptions): Promise<RecordResult[]> {
    return this.#read((reader) => {
      const records: RecordResult[] = [];
      const { catalog } = this.#contents;
      if (limit <= 0) return records;
      for (const key of catalog.keys(range, reverse)) {
        records.push(reader.record(key, catalog.record(key) as CatalogEntry));
        if (records.length >= limit) break;
      }
      return records;
    });
  }

  async items(spans: readonly ItemSpan[]): Promise<(Frame | Unreadable)[]> {
    return this.#read((reader) => {
      const requests: { tape: string; item: number; entry: CatalogEntry | undefined }[] = [];
      for (const { tape, start, count } of spans) {
        for (let item = start; item < start + count; item++) {
          requests.push({ tape, item, entry: this.#contents.catalog.item(tape, item) });
        }
      }
      return reader.items(requests);
    });
  }

  async blob(hash: string): Promise<Uint8Array | Unreadable> {
    return this.#run("Reading", async () => {
      await this.#access.read(() => {});
      return this.#blobs.read(hash);
    });
  }

  async commit(commit: Commit): Promise<CommitResult> {
    this.assertOpen();
    return this.#commits.commit(commit);
  }

  async now(): Promise<number> {
    this.assertOpen();
    return this.#clock();
  }

  async itemRefs({ tape, start, count }: ItemSpan): Promise<ItemRefs[] | Unreadable> {
    return this.#read((reader) => {
      const requests = this.#contents.catalog
        .itemsWithin(tape, start, count)
        .filter(([, entry]) => entry.refs || entry.length === 0)
        .map(([item, entry]) => ({ tape, item, entry }));
      const refs: ItemRefs[] = [];
      for (const [index, frame] of reader.items(requests).entries()) {
        if ("unreadable" in frame) return frame;
        refs.push({ item: requests[index]?.item as number, refs: frame.refs });
      }
      return refs;
    });
  }

  async tapes(range: KeyRange): Promise<string[]> {
    return this.#read(() => this.#contents.catalog.tapes(range));
  }

  async retain(tape: string, live: readonly Span[], { below, repack = false }: RetainOptions): Promise<Freed> {
    const name = tapeFileName(tape);
    const total = { items: 0, bytes: 0 };
    return this.#change("Freeing items in", async () => {
      const freed = await this.#append((group) => {
        const { catalog } = this.#contents;
        const isLive = createLivenessTest(live);
        const dead = catalog.itemsOf(tape).filter(([item]) => item < below && !isLive(item));
        const at = catalog.nextCommit;
        const numbers = new IntervalSet();
        for (const [item] of dead) numbers.add(item, 1);
        const head = { free: tape, spans: numbers.spans().map(({ start, count }) => [start, count] as const), at };
        if (dead.length > 0) group.append(name, at, [{ head }]);
        return { items: dead.length, bytes: dead.reduce((sum, [, entry]) => sum + entry.length, 0) };
      });
      // If the lock is lost while the file is compacted, all of this is repeated; freed items are counted once.
      total.items += freed.items;
      total.bytes += freed.bytes;
      const file = this.#contents.files.get(name);
      if (repack && file && file.deadBytes > 0) await this.#packer.compactFile(file, 0);
      return total;
    });
  }

  async heal(tape: string, items: ReadonlyMap<number, Frame>): Promise<number> {
    return this.#change("Healing items in", () =>
      this.#append((group) => {
        const { catalog, handles } = this.#contents;
        const requests = [...items.keys()].map((item) => ({ tape, item, entry: catalog.item(tape, item) }));
        const stored = new LineReader(handles, true).items(requests);
        const at = catalog.nextCommit;
        const lines = requests
          .filter((_, index) => "unreadable" in (stored[index] as Frame | Unreadable))
          .map(({ item }) => {
            const { json, refs } = items.get(item) as Frame;
            return { head: { item, tape, at, ...(refs !== "" && { refs }) }, value: json };
          });
        if (lines.length > 0) group.append(tapeFileName(tape), at, lines);
        return lines.length;
      }),
    );
  }

  async blobs({ after, limit }: { after: string; limit: number }): Promise<string[]> {
    return this.#read(() =>
      this.#contents.catalog
        .hashes()
        .filter((hash) => hash > after)
        .slice(0, limit),
    );
  }

  async dropBlobs(hashes: readonly string[], { unusedSince }: { unusedSince: number }): Promise<Freed> {
    const total = { items: 0, bytes: 0 };
    return this.#change("Freeing blobs in", async () => {
      const unused = await this.#append((group) => {
        const { catalog } = this.#contents;
        const sizes = new Map<string, number>();
        for (const hash of hashes) {
          const blob = catalog.blob(hash);
          if (blob && blob.used < unusedSince) sizes.set(hash, blob.bytes);
        }
        const at = catalog.nextCommit;
        const lines = [...sizes.keys()].map((drop) => ({ head: { drop, at } }));
        if (lines.length > 0) group.append(RECORDS_FILE, at, lines);
        return sizes;
      });
      total.items += unused.size;
      for (const bytes of unused.values()) total.bytes += bytes;
      // Only after no commit refers to them. Blobs that stay because the lock was lost are removed by compaction.
      for (const hash of unused.keys()) this.#blobs.remove(hash, this.#access.lock);
      return total;
    });
  }

  async compact(): Promise<void> {
    await this.#compact();
  }

  async scrub(): Promise<ScrubResult> {
    const damaged = await this.#compact();
    if (damaged.length === 0) return {};
    const files = damaged.map((name) => JSON.stringify(name)).join(", ");
    return {
      pending: `${files} of ${this.url} may contain erased data, because damaged lines are kept for repair. Run "savepoint repair", then erase again.`,
    };
  }

  #compact(): Promise<string[]> {
    return this.#run("Compacting", () => {
      this.#hasWritten = true;
      return this.#packer.compact();
    });
  }

  async bytes(): Promise<number> {
    return this.#read(() => {
      const { catalog, files, log } = this.#contents;
      let bytes = log.size;
      for (const { size } of files.values()) bytes += size;
      for (const hash of catalog.hashes()) bytes += catalog.blob(hash)?.bytes ?? 0;
      return bytes;
    });
  }

  async bytesOf({ records, tapes }: StoredRanges): Promise<number> {
    return this.#read(() => {
      const { catalog } = this.#contents;
      let bytes = 0;
      for (const range of records) for (const key of catalog.keys(range)) bytes += catalog.record(key)?.length ?? 0;
      for (const range of tapes) {
        for (const tape of catalog.tapes(range)) for (const [, { length }] of catalog.itemsOf(tape)) bytes += length;
      }
      return bytes;
    });
  }

  async check(): Promise<StoreProblem[]> {
    return this.#read(() => {
      this.#contents.expectScanned();
      return this.#contents.problems.map(({ file, offset, reason }) => ({
        place: `${file}.jsonl, byte ${offset}`,
        reason,
      }));
    });
  }

  protected async release(): Promise<void> {
    await this.#commits.idle();
    await this.#compacting;
    await this.#access.idle();
    try {
      if (this.#hasWritten) await this.#access.exclusive(() => this.#logClose());
    } catch (error) {
      // The store is then in the same state as after a crash: nothing is lost.
      this.#report(
        "the close mark could not be written; nothing is lost, and the next process checks the store",
        error,
      );
    }
    this.#contents.handles.closeAll();
  }

  /** Records that the store was closed, so that the next process knows that nothing was interrupted. */
  async #logClose(): Promise<void> {
    await this.#appender.syncAll();
    const { lock } = this.#access;
    lock.assertHeld();
    const mark = { closed: this.#clock(), ...this.#contents.writer };
    const isAlone = this.#contents.log.append([mark], () => lock.isHeld, true);
    if (isAlone) await runSlices(updateCatalogFile(this.#contents, lock));
  }

  /**
   * Compacts files that are mostly dead, in the background. Only files with new dead bytes are considered: a store may have
   * thousands of files, and this follows every group of commits. A file that could not be compacted is considered again.
   */
  async #compactInBackground(): Promise<void> {
    const { decayed } = this.#contents.catalog;
    try {
      for (const file of decayed) {
        if (this.#contents.problems.length > 0) return;
        if (!this.#isMostlyDead(file)) {
          decayed.delete(file);
          continue;
        }
        await this.#access.exclusive(async () => {
          if (this.#isMostlyDead(file)) await this.#packer.compactFile(file, 0);
          decayed.delete(file);
        });
      }
    } catch (error) {
      this.#report("a file could not be compacted, and was not changed", error);
    }
  }

  #isMostlyDead(file: DataFile): boolean {
    // The file may have been replaced.
    const isCurrent = this.#contents.files.get(file.name) === file;
    return isCurrent && file.deadBytes >= MIN_DEAD_BYTES && file.deadBytes * 2 >= file.size;
  }

  /** Appends one commit. The lock is held. */
  async #append<T>(work: AppendWork<T>): Promise<T> {
    const [result] = await this.#appender.appendGroup([work]);
    return result as T;
  }

  #change<T>(purpose: string, work: () => T | Promise<T>): Promise<T> {
    return this.#run(purpose, () => {
      this.#hasWritten = true;
      return this.#access.exclusive(work);
    });
  }

  #read<T>(work: (reader: LineReader) => T): Promise<T> {
    const { handles } = this.#contents;
    return this.#run("Reading", () =>
      this.#access.read((isLast) => {
        const reader = new LineReader(handles, isLast);
        const result = work(reader);
        // A catalog file may be wrong: damage is returned only if a scan of the files finds it too.
        if (reader.hasFailed) this.#contents.expectScanned();
        return result;
      }),
    );
  }

  /** Runs work while the store is open, and converts its errors. @param purpose the beginning of an error message */
  async #run<T>(purpose: string, work: () => Promise<T>): Promise<T> {
    this.assertOpen();
    try {
      return await work();
    } catch (error) {
      throw toFileError(error, this.url, purpose);
    }
  }
}

/** Whether an item is in one of these spans. Items must be tested in ascending order. */
function createLivenessTest(live: readonly Span[]): (item: number) => boolean {
  const spans = [...live].sort((a, b) => a.start - b.start);
  let at = 0;
  let end = -1;
  return (item) => {
    for (let span = spans[at]; span && span.start <= item; span = spans[++at])
      end = Math.max(end, span.start + span.count);
    return item < end;
  };
}
