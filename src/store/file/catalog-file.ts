/**
 * The catalog file: the catalog of a store at one moment, so that a process that only reads need not scan all files.
 *
 * It is derived, and can be deleted at any time. It names the position in the commit log at which it was written (`LogStamp`); later
 * commits are read from the log. Its lines have checksums like all others:
 *
 * | line | meaning |
 * |---|---|
 * | `{"catalog":2,"log":{…},"directory":<bytes>}` | header, with the length of the next line |
 * | `{"last":…,"fences":[…],"files":[…],"blobs":[…],"records":[…],"items":[…]}` | the directory: all files and blobs, and where blocks are |
 * | `{"records":[[key, file, offset, length, at, refs]…]}` | a block of records, in key order |
 * | `{"tape":…,"items":[[item, file, offset, length, at, refs]…]}` | a block of the items of one tape, by number |
 *
 * `file` is a position in the list of files, `offset` in the directory is relative to the first block, and `refs` is 1 if there
 * are references. Blocks are decoded when they are used. A file that another program has written can contain anything: any
 * invalid content is a {@link CatalogFileError}, after which the files are scanned.
 */
import { isCounter, isNumber, isString, listOf, objectOf, partitionPoint, tupleOf } from "../../util/index.js";
import { compareKeys } from "../contract/index.js";
import type { CatalogEntry, LineLocation } from "./catalog.js";
import { isLogStamp, type LogStamp } from "./commit-log.js";
import { type DataFile, newDataFile } from "./data-file.js";
import type { Fence } from "./fences.js";
import { type Folder, isDataFileName } from "./folder.js";
import { FORMAT, isBlobName, isCommit, parseLine } from "./lines.js";

/** The catalog file is damaged, or does not describe the files of the store. */
export class CatalogFileError extends Error {}

/** The longest header line. */
export const MAX_HEADER = 512;
/** A longer file is neither written nor read: it is held in memory. */
export const MAX_CATALOG_BYTES = 1 << 28;

export type StoredLocation = [file: number, offset: number, length: number, at: number];
export type StoredEntry = [...StoredLocation, refs: number];
type StoredFile = [name: string, generation: number, size: number, lastCommit: number];
export type BlockPlace = [offset: number, length: number];

export interface Header {
  readonly catalog: number;
  readonly log: LogStamp;
  readonly directory: number;
}

export interface Directory {
  readonly last: number;
  readonly fences: readonly Fence[];
  readonly files: readonly StoredFile[];
  readonly blobs: readonly [hash: string, ...StoredLocation, used: number, bytes: number][];
  readonly records: readonly [firstKey: string, ...BlockPlace][];
  readonly items: readonly [tape: string, firstItem: number, ...BlockPlace][];
}

const isHeader = objectOf({ catalog: isCounter, log: isLogStamp, directory: isCounter });
const LOCATION = [isCounter, isCounter, isCounter, isCommit] as const;
const PLACE = [isCounter, isCounter] as const;
const isDirectory = objectOf({
  last: isCommit,
  fences: listOf(objectOf({ fence: isCounter, after: isCommit })),
  files: listOf(tupleOf(isDataFileName, isCommit, isCounter, isCommit)),
  blobs: listOf(tupleOf(isBlobName, ...LOCATION, isNumber, isCounter)),
  records: listOf(tupleOf(isString, ...PLACE)),
  items: listOf(tupleOf(isString, isCounter, ...PLACE)),
});
const isRecordBlock = objectOf({ records: listOf(tupleOf(isString, ...LOCATION, isCounter)) });
const isItemBlock = objectOf({ tape: isString, items: listOf(tupleOf(isCounter, ...LOCATION, isCounter)) });

/** Reads the stamp of a catalog file from its first bytes; `undefined` if they are not the header of one. */
export function readCatalogStamp(bytes: Buffer): LogStamp | undefined {
  return parseHeader(bytes)?.log;
}

function parseHeader(bytes: Buffer): (Header & { readonly end: number }) | undefined {
  const end = bytes.subarray(0, MAX_HEADER).indexOf(10);
  const fields = end < 0 ? undefined : parseLine(bytes.subarray(0, end))?.fields;
  const header = isHeader(fields) ? (fields as unknown as Header) : undefined;
  return header?.catalog === FORMAT ? { ...header, end: end + 1 } : undefined;
}

/** A catalog file in memory. All methods throw {@link CatalogFileError} if what they need is damaged. */
export class CatalogFile {
  readonly stamp: LogStamp;
  readonly lastCommit: number;
  readonly fences: readonly Fence[];
  readonly files: readonly DataFile[];
  readonly blobs: readonly (LineLocation & { hash: string; at: number; used: number; bytes: number })[];
  readonly #records: Directory["records"];
  readonly #items: Directory["items"];
  /** The bytes of all blocks. */
  readonly #blocks: Buffer;
  /** Decoded blocks, by their position in the directory. */
  readonly #recordBlocks = new Map<number, Map<string, CatalogEntry>>();
  readonly #itemBlocks = new Map<number, Map<number, CatalogEntry>>();

  constructor(bytes: Buffer, folder: Folder) {
    const header = parseHeader(bytes);
    if (!header) throw new CatalogFileError("The header of the catalog file is damaged.");
    const start = header.end + header.directory;
    const directory = parseBlock(bytes, [header.end, header.directory], isDirectory) as unknown as Directory;
    this.stamp = header.log;
    this.lastCommit = directory.last;
    this.fences = directory.fences;
    this.files = directory.files.map(([name, generation, size, lastCommit]) => {
      const file = newDataFile(name, folder.file(name), generation);
      return Object.assign(file, { size, lastCommit });
    });
    this.blobs = directory.blobs.map(([hash, file, offset, length, at, used, size]) => ({
      ...this.#locate([file, offset, length, at]),
      hash,
      used,
      bytes: size,
    }));
    this.#records = directory.records;
    this.#items = directory.items;
    this.#blocks = bytes.subarray(start);
    expectAscending(this.#records, ([a], [b]) => compareKeys(a, b));
    expectAscending(this.#items, ([tape, item], [nextTape, next]) => compareKeys(tape, nextTape) || item - next);
  }

  record(key: string): CatalogEntry | undefined {
    const number = partitionPoint(this.#records, ([first]) => compareKeys(first, key) <= 0) - 1;
    return number < 0 ? undefined : this.#recordBlock(number).get(key);
  }

  /** The keys from `from` to `to` (excluded), in order. */
  *keys({ from, to }: { from: string; to: string }, reverse: boolean): Generator<string> {
    const isBefore = (bound: string) => (place: Directory["records"][number]) => compareKeys(place[0], bound) < 0;
    const first = Math.max(0, partitionPoint(this.#records, isBefore(from)) - 1);
    const last = partitionPoint(this.#records, isBefore(to)) - 1;
    for (let n = 0; n <= last - first; n++) {
      const keys = [...this.#recordBlock(reverse ? last - n : first + n).keys()];
      for (const key of reverse ? keys.reverse() : keys) {
        if (compareKeys(key, from) >= 0 && compareKeys(key, to) < 0) yield key;
      }
    }
  }

  item(tape: string, item: number): CatalogEntry | undefined {
    const number = this.#firstItemBlockAfter(tape, item) - 1;
    return this.#items[number]?.[0] === tape ? this.#itemBlock(number).get(item) : undefined;
  }

  /** The items of a tape from `start` to `end` (excluded), by number. */
  *itemsBetween(tape: string, start: number, end: number): Generator<[number, CatalogEntry]> {
    let number = Math.max(0, this.#firstItemBlockAfter(tape, start) - 1);
    for (; number < this.#items.length; number++) {
      const [of = "", first = 0] = this.#items[number] ?? [];
      if (compareKeys(of, tape) < 0) continue;
      if (of !== tape || first >= end) return;
      for (const entry of this.#itemBlock(number)) if (entry[0] >= start && entry[0] < end) yield entry;
    }
  }

  tapes(): string[] {
    return [...new Set(this.#items.map(([tape]) => tape))];
  }

  #firstItemBlockAfter(tape: string, item: number): number {
    return partitionPoint(this.#items, ([of, first]) => (compareKeys(of, tape) || first - item) <= 0);
  }

  #recordBlock(number: number): Map<string, CatalogEntry> {
    let block = this.#recordBlocks.get(number);
    if (block) return block;
    const [first, ...place] = this.#records[number] as Directory["records"][number];
    const { records } = parseBlock(this.#blocks, place, isRecordBlock) as { records: [string, ...StoredEntry][] };
    const next = this.#records[number + 1]?.[0];
    expectAscending([...records, ...(next === undefined ? [] : [[next] as const])], ([a], [b]) => compareKeys(a, b));
    if (records[0]?.[0] !== first) throw new CatalogFileError("A block of the catalog file is at the wrong place.");
    block = new Map(records.map(([key, ...stored]) => [key, this.#toEntry(stored)]));
    this.#recordBlocks.set(number, block);
    return block;
  }

  #itemBlock(number: number): Map<number, CatalogEntry> {
    let block = this.#itemBlocks.get(number);
    if (block) return block;
    const [tape, first, ...place] = this.#items[number] as Directory["items"][number];
    const stored = parseBlock(this.#blocks, place, isItemBlock) as { tape: string; items: [number, ...StoredEntry][] };
    const next = this.#items[number + 1];
    const bound = next?.[0] === tape ? [[next[1]] as const] : [];
    expectAscending([...stored.items, ...bound], ([a], [b]) => a - b);
    if (stored.tape !== tape || stored.items[0]?.[0] !== first)
      throw new CatalogFileError("A block of the catalog file is at the wrong place.");
    block = new Map(stored.items.map(([item, ...entry]) => [item, this.#toEntry(entry)]));
    this.#itemBlocks.set(number, block);
    return block;
  }

  #toEntry([file, offset, length, at, refs]: StoredEntry): CatalogEntry {
    return { ...this.#locate([file, offset, length, at]), refs: refs === 1 };
  }

  #locate([number, offset, length, at]: StoredLocation): LineLocation & { at: number } {
    const file = this.files[number];
    if (!file || length === 0 || offset + length > file.size || at > this.lastCommit)
      throw new CatalogFileError("A location in the catalog file is outside of its file.");
    return { file, offset, length, at };
  }
}

/** Decodes a line at a known place. */
function parseBlock(bytes: Buffer, [offset, length]: BlockPlace, isValid: (fields: unknown) => boolean): object {
  const line = length > 0 && offset + length <= bytes.length ? bytes.subarray(offset, offset + length - 1) : undefined;
  const fields = line && parseLine(line)?.fields;
  if (!fields || !isValid(fields)) throw new CatalogFileError("A line of the catalog file is damaged.");
  return fields;
}

/** Binary search needs sorted lists, and every key belongs to one block. */
function expectAscending<T>(list: readonly T[], compare: (a: T, b: T) => number): void {
  for (let index = 1; index < list.length; index++) {
    if (compare(list[index - 1] as T, list[index] as T) >= 0)
      throw new CatalogFileError("The catalog file is not in order.");
  }
}
