/**
 * Writes the catalog file (catalog-file.ts): when the store is closed or compacted, and when the commit log is rewritten. The lock is
 * held, so the catalog in memory is that of the log up to its stamp.
 */
import { rmSync, statSync } from "node:fs";
import { replaceFileSync, type Slices } from "../../util/index.js";
import type { Catalog, CatalogEntry, LineLocation } from "./catalog.js";
import {
  type BlockPlace,
  type Directory,
  type Header,
  MAX_CATALOG_BYTES,
  MAX_HEADER,
  readCatalogStamp,
  type StoredEntry,
  type StoredLocation,
} from "./catalog-file.js";
import type { CommitLog, LogStamp } from "./commit-log.js";
import { readBytes, withFileIfPresent } from "./data-file.js";
import type { Folder } from "./folder.js";
import { encodeLine, FORMAT } from "./lines.js";
import type { StoreState } from "./load.js";
import type { HeldLock } from "./lock.js";

/** The entries in one block. */
const BLOCK_ENTRIES = 128;
/** Stores with fewer bytes have no catalog file: scanning them takes no longer than reading one. At 800 kB a scan executes three times the instructions. */
export const MIN_INDEXED_BYTES = 1 << 17;
/** The file is written again when the log has grown by this many bytes: readers read the commits since then from the files. */
const MAX_LOG_GROWTH = 1 << 16;

/** The contents of a store whose catalog file is written. */
interface IndexedStore extends StoreState {
  readonly folder: Folder;
  readonly log: CommitLog;
  /** Stores with fewer bytes have no catalog file. */
  readonly minIndexedBytes: number;
}

/**
 * Writes the catalog file, in slices, unless it is recent enough. Small and damaged stores have no catalog file: every process
 * scans their files.
 */
export function* updateCatalogFile(store: IndexedStore, lock: Pick<HeldLock, "assertHeld">): Slices<void> {
  const { folder, log } = store;
  const stamp = log.stamp();
  const before = withFileIfPresent(folder.catalog, (handle) => readCatalogStamp(readBytes(handle, 0, MAX_HEADER)));
  if (before && before.generation === stamp?.generation && stamp.size - before.size < MAX_LOG_GROWTH) return;
  if (!stamp || !isIndexable(store)) return removeCatalogFile(folder, lock);
  const bytes = yield* encodeCatalogFile(store, stamp);
  if (bytes.length > MAX_CATALOG_BYTES) return removeCatalogFile(folder, lock);
  // Every user who may read the log may read this file.
  const mode = statSync(log.path).mode & 0o777;
  replaceFileSync(folder.catalog, bytes, () => lock.assertHeld(), mode);
}

/** Removes the catalog file, because it names data that is about to be removed from the files. */
export function removeCatalogFile({ catalog }: Folder, lock: Pick<HeldLock, "assertHeld">): void {
  lock.assertHeld();
  rmSync(catalog, { force: true });
}

function isIndexable({ files, problems, minIndexedBytes }: IndexedStore): boolean {
  let bytes = 0;
  for (const { size, isDamaged, lostLines } of files.values()) {
    if (isDamaged || lostLines > 0) return false;
    bytes += size;
  }
  return problems.length === 0 && bytes >= minIndexedBytes;
}

/** Encodes the catalog of a store, in slices. Nothing may be written before this ends. */
function* encodeCatalogFile({ catalog, files, fences }: StoreState, log: LogStamp): Slices<Buffer> {
  const numbers = new Map([...files.values()].map((file, number) => [file, number]));
  const locate = ({ file, offset, length, at }: LineLocation & { at: number }): StoredLocation => [
    numbers.get(file) ?? -1,
    offset,
    length,
    at,
  ];
  const toStored = (entry: CatalogEntry): StoredEntry => [...locate(entry), entry.refs ? 1 : 0];
  const blocks: Buffer[] = [];
  let end = 0;
  const addBlock = (fields: object): BlockPlace => {
    const block = Buffer.from(encodeLine(fields));
    blocks.push(block);
    end += block.length;
    return [end - block.length, block.length];
  };
  const records: Directory["records"][number][] = [];
  for (const keys of inGroups(catalog.allKeys())) {
    const entries = keys.map((key) => [key, ...toStored(catalog.record(key) as CatalogEntry)]);
    records.push([keys[0] as string, ...addBlock({ records: entries })]);
    yield;
  }
  const items: Directory["items"][number][] = [];
  for (const tape of catalog.allTapes()) {
    for (const group of inGroups(catalog.itemsOf(tape))) {
      const entries = group.map(([item, entry]) => [item, ...toStored(entry)]);
      items.push([tape, group[0]?.[0] as number, ...addBlock({ tape, items: entries })]);
      yield;
    }
  }
  const directory: Directory = {
    last: catalog.lastCommit,
    fences: fences.all,
    files: [...numbers.keys()].map(({ name, generation, size, lastCommit }) => [name, generation, size, lastCommit]),
    blobs: blobsOf(catalog).map(([hash, blob]) => [hash, ...locate(blob), blob.used, blob.bytes]),
    records,
    items,
  };
  const directoryLine = Buffer.from(encodeLine(directory));
  const header: Header = { catalog: FORMAT, log, directory: directoryLine.length };
  return Buffer.concat([Buffer.from(encodeLine(header)), directoryLine, ...blocks]);
}

function blobsOf(catalog: Catalog): [string, NonNullable<ReturnType<Catalog["blob"]>>][] {
  return catalog.hashes().flatMap((hash) => {
    const blob = catalog.blob(hash);
    return blob ? [[hash, blob]] : [];
  });
}

function* inGroups<T>(all: Iterable<T>): Generator<T[]> {
  let group: T[] = [];
  for (const each of all) {
    group.push(each);
    if (group.length < BLOCK_ENTRIES) continue;
    yield group;
    group = [];
  }
  if (group.length > 0) yield group;
}
