/**
 * `file:`, a folder of plain files that people can read, search and keep under version control.
 *
 * Every tape has a file of lines, to which commits are appended: see lines.ts. Many processes may use the folder: one
 * writes at a time, and each keeps up with what the others have written. Where everything is, every process keeps in
 * memory; the texts themselves are read when they are asked for, and verified each time.
 */
import { resolve } from "node:path";
import { GroupCommit, storeClosed } from "../shared/index.js";
import {
  createFailureReporter,
  busyTimeoutOf,
  type Commit,
  type CommitResult,
  type DiskOptions,
  type Frame,
  type Freed,
  type ItemRefs,
  type ItemSpan,
  type KeyRange,
  type Store,
  type StoredRanges,
  type StoredRecord,
  type StoreProblem,
  type Unreadable,
  type UnreadableRecord,
} from "../contract/index.js";
import { StoreAccess } from "./access.js";
import { Appender } from "./appender.js";
import { BlobFiles } from "./blob-files.js";
import type { CatalogEntry } from "./catalog.js";
import { Packer } from "./packer.js";
import { StoreContents } from "./contents.js";
import { toFileError } from "../../util/index.js";
import { Folder } from "./folder.js";
import { FolderLock } from "./lock.js";
import { tapeFileName, RECORDS_FILE } from "./names.js";
import { LineReader } from "./reader.js";
import { Writer } from "./writer.js";

/** A file is packed by itself when more than this, and more than half of it, is not true any more. */
const MUCH_DEAD = 1 << 20;

/** What only tests set. */
export interface FileStoreInternals {
  /** How long the holder of the lock may show no sign of life before another process takes it over, in milliseconds. */
  readonly silence?: number;
  /**
   * If there is a probe, is a commit written in two parts, with a probe point in between?
   * @default true
   */
  readonly tears?: boolean;
}

/** Opens a store in a folder, which is created if it does not exist. Opening an existing store needs no lock. */
export async function openFileStore(
  path: string,
  options: DiskOptions = {},
  internals: FileStoreInternals = {},
): Promise<Store> {
  const url = `file:${path}`;
  try {
    const folder = new Folder(resolve(path));
    folder.prepare(url, options.create);
    const lock = new FolderLock(folder.lock, url, {
      timeout: busyTimeoutOf(options),
      silence: internals.silence,
      report: createFailureReporter(options),
    });
    const access = new StoreAccess(new StoreContents(folder, url), lock);
    if (folder.isNew) await access.exclusive(() => {});
    else await access.read(() => {});
    return new FileStore(access, options, internals);
  } catch (error) {
    throw toFileError(error, url, "Opening");
  }
}

class FileStore implements Store {
  readonly url: string;
  readonly capabilities = { durable: true, shared: true };
  readonly #access: StoreAccess;
  readonly #contents: StoreContents;
  readonly #clock: () => number;
  readonly #appender: Appender;
  readonly #blobs: BlobFiles;
  readonly #compactor: Packer;
  readonly #commits: GroupCommit;
  readonly #report: (message: string, error: unknown) => void;
  #packing: Promise<void> | undefined;
  #wrote = false;
  #closing: Promise<void> | undefined;

  constructor(access: StoreAccess, options: DiskOptions, { tears = true }: FileStoreInternals) {
    const { contents } = access;
    this.url = contents.url;
    this.#access = access;
    this.#contents = contents;
    this.#clock = options.now ?? Date.now;
    this.#report = createFailureReporter(options);
    this.#appender = new Appender(access, options, tears);
    this.#blobs = new BlobFiles(contents);
    this.#compactor = new Packer(access, this.#blobs, options);
    const writer = new Writer(access, this.#appender, this.#blobs, options);
    this.#commits = new GroupCommit(async (commits) => {
      this.#wrote = true;
      const outcomes = await writer.apply(commits);
      this.#packing ??= this.#packAside();
      return outcomes;
    });
  }

  async get(keys: readonly string[]): Promise<(StoredRecord | UnreadableRecord | undefined)[]> {
    return this.#read((reader) =>
      keys.map((key) => {
        const entry = this.#contents.catalog.record(key);
        return entry && reader.record(key, entry);
      }),
    );
  }

  async list(
    range: KeyRange,
    { limit, reverse = false }: { limit: number; reverse?: boolean },
  ): Promise<(StoredRecord | UnreadableRecord)[]> {
    return this.#read((reader) => {
      const found: (StoredRecord | UnreadableRecord)[] = [];
      const { catalog } = this.#contents;
      if (limit <= 0) return found;
      for (const key of catalog.keys(range, reverse)) {
        found.push(reader.record(key, catalog.record(key) as CatalogEntry));
        if (found.length >= limit) break;
      }
      return found;
    });
  }

  async items(spans: readonly ItemSpan[]): Promise<(Frame | Unreadable)[]> {
    return this.#read((reader) => {
      const wanted: { tape: string; item: number; entry: CatalogEntry | undefined }[] = [];
      for (const { tape, start, count } of spans) {
        for (let item = start; item < start + count; item++) {
          wanted.push({ tape, item, entry: this.#contents.catalog.item(tape, item) });
        }
      }
      return reader.items(wanted);
    });
  }

  async blob(hash: string): Promise<Uint8Array | Unreadable> {
    await this.#read(() => {});
    try {
      return await this.#blobs.read(hash);
    } catch (error) {
      throw toFileError(error, this.url, "Reading");
    }
  }

  commit(commit: Commit): Promise<CommitResult> {
    if (this.#closing) return Promise.reject(storeClosed(this.url));
    return this.#commits.commit(commit);
  }

  async now(): Promise<number> {
    this.#checkOpen();
    return this.#clock();
  }

  async itemRefs({ tape, start, count }: ItemSpan): Promise<ItemRefs[] | Unreadable> {
    return this.#read((reader) => {
      const wanted = this.#contents.catalog
        .itemsWithin(tape, start, count)
        .filter(([, entry]) => entry.refs || entry.length === 0)
        .map(([item, entry]) => ({ tape, item, entry }));
      const found: ItemRefs[] = [];
      for (const [index, frame] of reader.items(wanted).entries()) {
        if ("unreadable" in frame) return frame;
        found.push({ item: wanted[index]?.item as number, refs: frame.refs });
      }
      return found;
    });
  }

  async tapes(range: KeyRange): Promise<string[]> {
    return this.#read(() => this.#contents.catalog.tapes(range));
  }

  async retain(
    tape: string,
    live: readonly { start: number; count: number }[],
    { below, repack = false }: { below: number; repack?: boolean },
  ): Promise<Freed> {
    const name = tapeFileName(tape);
    const total = { items: 0, bytes: 0 };
    return this.#change("Freeing items in", async () => {
      const freed = await this.#append(() => {
        const { catalog } = this.#contents;
        const isLive = liveness(live);
        const dead = catalog.itemsOf(tape).filter(([item]) => item < below && !isLive(item));
        const at = catalog.lastCommit + 1;
        const head = { free: tape, spans: toSpans(dead.map(([item]) => item)), at };
        if (dead.length > 0) this.#appender.append(name, at, [{ head }]);
        return { items: dead.length, bytes: dead.reduce((sum, [, entry]) => sum + entry.length, 0) };
      });
      // If the lock is lost, packing is restarted, including all of this.
      total.items += freed.items;
      total.bytes += freed.bytes;
      const file = this.#contents.files.get(name);
      if (repack && file && file.deadBytes > 0) await this.#compactor.compactFile(file, 0);
      return total;
    });
  }

  async heal(tape: string, items: ReadonlyMap<number, Frame>): Promise<number> {
    return this.#change("Healing items in", () =>
      this.#append(() => {
        const { catalog, handles } = this.#contents;
        const wanted = [...items.keys()].map((item) => ({ tape, item, entry: catalog.item(tape, item) }));
        const found = new LineReader(handles, true).items(wanted);
        const at = catalog.lastCommit + 1;
        const lines = wanted
          .filter((_, index) => "unreadable" in (found[index] as Frame | Unreadable))
          .map(({ item }) => {
            const { json, refs } = items.get(item) as Frame;
            return { head: { item, tape, at, ...(refs !== "" && { refs }) }, value: json };
          });
        if (lines.length > 0) this.#appender.append(tapeFileName(tape), at, lines);
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
      const unused = await this.#append(() => {
        const { catalog } = this.#contents;
        const found = new Map<string, number>();
        for (const hash of hashes) {
          const blob = catalog.blob(hash);
          if (blob && blob.used < unusedSince) found.set(hash, blob.bytes);
        }
        const at = catalog.lastCommit + 1;
        const lines = [...found.keys()].map((drop) => ({ head: { drop, at } }));
        if (lines.length > 0) this.#appender.append(RECORDS_FILE, at, lines);
        return found;
      });
      total.items += unused.size;
      for (const bytes of unused.values()) total.bytes += bytes;
      // Only now, when no commit refers to them. A blob that stays because the lock was lost is removed by compacting.
      for (const hash of unused.keys()) this.#blobs.remove(hash, this.#access.lock);
      return total;
    });
  }

  async compact(): Promise<void> {
    this.#checkOpen();
    this.#wrote = true;
    try {
      await this.#compactor.compact();
    } catch (error) {
      throw toFileError(error, this.url, "Compacting");
    }
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
    return this.#read(() =>
      this.#contents.problems.map(({ file, offset, reason }) => ({ place: `${file}.jsonl, byte ${offset}`, reason })),
    );
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #close(): Promise<void> {
    await this.#commits.idle();
    await this.#packing;
    await this.#access.idle();
    try {
      if (this.#wrote) await this.#access.exclusive(() => this.#sayClosed());
    } catch (error) {
      // It stays as it would be after a crash: nothing is lost by it.
      this.#report("it could not be noted that the store was closed", error);
    }
    this.#contents.handles.closeAll();
  }

  /** So that whoever opens it next knows that nothing was interrupted. */
  async #sayClosed(): Promise<void> {
    await this.#appender.syncEverything();
    const { lock } = this.#access;
    lock.assertHeld();
    this.#contents.log.append([{ closed: this.#clock(), ...this.#contents.writer }], () => lock.isHeld, true);
  }

  /** Packs files of which the larger part is dead, while nobody waits for it. */
  async #packAside(): Promise<void> {
    try {
      for (const file of this.#contents.files.values()) {
        if (file.deadBytes < MUCH_DEAD || file.deadBytes * 2 < file.size || this.#contents.problems.length > 0)
          continue;
        await this.#access.exclusive(async () => {
          if (this.#contents.files.get(file.name) === file) await this.#compactor.compactFile(file, 0);
        });
      }
    } catch (error) {
      this.#report("a file could not be packed, and stays as it is", error);
    } finally {
      this.#packing = undefined;
    }
  }

  /** Appends one commit. The lock is held. */
  async #append<T>(work: () => T): Promise<T> {
    const [result] = await this.#appender.group([work]);
    return result as T;
  }

  async #change<T>(what: string, work: () => T | Promise<T>): Promise<T> {
    this.#checkOpen();
    this.#wrote = true;
    try {
      return await this.#access.exclusive(work);
    } catch (error) {
      throw toFileError(error, this.url, what);
    }
  }

  async #read<T>(work: (reader: LineReader) => T): Promise<T> {
    this.#checkOpen();
    try {
      return await this.#access.read((last) => work(new LineReader(this.#contents.handles, last)));
    } catch (error) {
      throw toFileError(error, this.url, "Reading");
    }
  }

  #checkOpen(): void {
    if (this.#closing) throw storeClosed(this.url);
  }
}

function liveness(live: readonly { start: number; count: number }[]): (item: number) => boolean {
  const spans = [...live].sort((a, b) => a.start - b.start);
  let at = 0;
  let end = -1;
  // Items are asked for in order.
  return (item) => {
    for (let span = spans[at]; span && span.start <= item; span = spans[++at])
      end = Math.max(end, span.start + span.count);
    return item < end;
  };
}

function toSpans(items: readonly number[]): [first: number, count: number][] {
  const spans: [number, number][] = [];
  for (const item of items) {
    const last = spans.at(-1);
    if (last && last[0] + last[1] === item) last[1]++;
    else spans.push([item, 1]);
  }
  return spans;
}
