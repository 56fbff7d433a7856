/**
 * The catalog: the location of every record, item and blob of a store, without their values. It is kept in memory and built
 * from the lines of all files. Of two lines about the same thing, the one of the later commit counts.
 */
import { SavepointError } from "../../errors.js";
import { compareKeys, covers, type KeyRange } from "../contract/index.js";
import { addToList, getOrAdd, type Slices } from "../../util/index.js";
import { SortedKeys } from "../shared/index.js";
import { type DataFile, LINES_PER_PROGRESS } from "./data-file.js";
import { isRemoval, type LineHead, MAX_COMMIT } from "./lines.js";

/** The location of a line. */
export interface LineLocation {
  readonly file: DataFile;
  readonly offset: number;
  /** In bytes, including the line end; 0 if the line is lost. */
  readonly length: number;
}

/** The head of a line, with its location. */
export interface LocatedLine extends LineLocation {
  readonly head: LineHead;
}

/** A record or an item. */
export interface CatalogEntry extends LineLocation {
  readonly at: number;
  /** Whether it has references. */
  readonly refs: boolean;
}

export interface CatalogBlob extends LineLocation {
  readonly at: number;
  /** When a commit last used it, in milliseconds. */
  readonly used: number;
  readonly bytes: number;
}

/** The number of heads that are collected in one slice. */
const SLICE = 4096;

export class Catalog {
  readonly #records = new Map<string, CatalogEntry>();
  readonly #keys = new SortedKeys();
  readonly #tapes = new Map<string, Map<number, CatalogEntry>>();
  readonly #blobs = new Map<string, CatalogBlob>();
  /** The number of the last known commit. */
  lastCommit = 0;
  /** Files whose dead bytes have grown since they were last considered for compaction, which removes them from here. */
  readonly decayed = new Set<DataFile>();

  /**
   * The number of the next commit. Throws `DAMAGED` if all numbers are used: that cannot happen in a store that only Savepoint has
   * changed.
   */
  get nextCommit(): number {
    if (this.lastCommit < MAX_COMMIT) return this.lastCommit + 1;
    throw new SavepointError(
      "DAMAGED",
      `The last commit of this store has the number ${this.lastCommit}, the highest possible. Savepoint never writes that many commits, so another program must have changed the files. Nothing was written. Export the store, and import the bundle into a new store.`,
    );
  }

  record(key: string): CatalogEntry | undefined {
    return this.#records.get(key);
  }

  item(tape: string, item: number): CatalogEntry | undefined {
    return this.#tapes.get(tape)?.get(item);
  }

  blob(hash: string): CatalogBlob | undefined {
    return this.#blobs.get(hash);
  }

  keys(range: KeyRange, reverse = false): Generator<string> {
    return reverse ? this.#keys.withinReversed(range) : this.#keys.within(range);
  }

  /** All keys, in order. */
  allKeys(): Generator<string> {
    return this.#keys.all();
  }

  /** All tapes, in order. */
  allTapes(): string[] {
    return [...this.#tapes.keys()].sort(compareKeys);
  }

  /** The items of a tape, by number. */
  itemsOf(tape: string): [number, CatalogEntry][] {
    return [...(this.#tapes.get(tape) ?? [])].sort(([a], [b]) => a - b);
  }

  /** The items of a tape within a range of numbers, by number. Missing items are left out. */
  itemsWithin(tape: string, start: number, count: number): [number, CatalogEntry][] {
    const items = this.#tapes.get(tape);
    if (!items || count > items.size)
      return this.itemsOf(tape).filter(([item]) => item >= start && item < start + count);
    const present: [number, CatalogEntry][] = [];
    for (let item = start; item < start + count; item++) {
      const entry = items.get(item);
      if (entry) present.push([item, entry]);
    }
    return present;
  }

  tapes(range: KeyRange): string[] {
    return [...this.#tapes.keys()].filter((tape) => covers(range, tape)).sort(compareKeys);
  }

  hashes(): string[] {
    return [...this.#blobs.keys()].sort();
  }

  /** Whether a line counts: no later line is about the same thing. Not for removals. */
  isLive(line: LocatedLine): boolean {
    const entry = this.#entryOf(line.head);
    if (entry?.file !== line.file || entry.length !== line.length) return false;
    // Lost lines have no offset of their own.
    return entry.offset === line.offset || entry.length === 0;
  }

  /** Applies a line. Lines of one commit must be applied in the order in which they were written. */
  apply(line: LocatedLine): void {
    const { head } = line;
    this.lastCommit = Math.max(this.lastCommit, head.at);
    if ("put" in head) this.#putRecord(head.put, toEntry(line));
    else if ("item" in head) this.#putItem(head.tape, head.item, toEntry(line));
    else if ("blob" in head)
      this.#putBlob(head.blob, { ...toLocation(line), at: head.at, used: head.used, bytes: head.bytes });
    else {
      line.file.removals.push(head);
      if ("delete" in head) this.#deleteRecords(head.delete, head.at);
      else if ("free" in head) this.#freeItems(head.free, head.spans, head.at);
      else this.#dropBlob(head.drop, head.at);
    }
  }

  /**
   * Applies lines of any files and commits, in the order of the commits.
   *
   * @param onProgress called regularly, because many lines take a while
   */
  applyAll(lines: readonly LocatedLine[], onProgress: () => void = () => {}): void {
    // Within a commit, removals come first; the other lines keep their order.
    const rank = ({ head }: LocatedLine): number => (isRemoval(head) ? 0 : 1);
    const sorted = [...lines].sort((a, b) => a.head.at - b.head.at || rank(a) - rank(b));
    for (const [index, line] of sorted.entries()) {
      if (index % LINES_PER_PROGRESS === 0) onProgress();
      this.apply(line);
    }
  }

  /** Collects the heads of everything in the store by file, in slices. Nothing may be written before this ends. */
  *heads(): Slices<Map<DataFile, LineHead[]>> {
    const heads = new Map<DataFile, LineHead[]>();
    let count = 0;
    for (const [file, head] of this.#heads()) {
      addToList(heads, file, head);
      if (++count % SLICE === 0) yield;
    }
    return heads;
  }

  *#heads(): Generator<[DataFile, LineHead]> {
    for (const [put, { file, at }] of this.#records) yield [file, { put, at }];
    for (const [tape, items] of this.#tapes) {
      for (const [item, { file, at }] of [...items].sort(([a], [b]) => a - b)) yield [file, { item, tape, at }];
    }
    for (const [blob, { file, at, used, bytes }] of this.#blobs) yield [file, { blob, used, bytes, at }];
  }

  /** Whether a record or an item of this file is lost. */
  hasLostEntries(file: DataFile): boolean {
    const isLost = (entry: LineLocation): boolean => entry.file === file && entry.length === 0;
    for (const entry of this.#records.values()) if (isLost(entry)) return true;
    for (const items of this.#tapes.values()) for (const entry of items.values()) if (isLost(entry)) return true;
    return false;
  }

  /** Removes everything that is in these files. */
  forget(files: ReadonlySet<DataFile>): void {
    for (const [key, { file }] of this.#records) {
      if (!files.has(file)) continue;
      this.#records.delete(key);
      this.#keys.delete(key);
    }
    for (const [tape, items] of this.#tapes) {
      for (const [item, { file }] of items) if (files.has(file)) items.delete(item);
      if (items.size === 0) this.#tapes.delete(tape);
    }
    for (const [hash, { file }] of this.#blobs) if (files.has(file)) this.#blobs.delete(hash);
  }

  #entryOf(head: LineHead): LineLocation | undefined {
    if ("put" in head) return this.#records.get(head.put);
    if ("item" in head) return this.item(head.tape, head.item);
    return "blob" in head ? this.#blobs.get(head.blob) : undefined;
  }

  #putRecord(key: string, entry: CatalogEntry): void {
    const before = this.#records.get(key);
    if (!before) this.#keys.add(key);
    this.#records.set(key, this.#newer(before, entry));
  }

  #putItem(tape: string, item: number, entry: CatalogEntry): void {
    const items = getOrAdd(this.#tapes, tape, () => new Map<number, CatalogEntry>());
    items.set(item, this.#newer(items.get(item), entry));
  }

  #putBlob(hash: string, entry: CatalogBlob): void {
    this.#blobs.set(hash, this.#newer(this.#blobs.get(hash), entry));
  }

  #deleteRecords(target: string | KeyRange, at: number): void {
    const keys = typeof target === "string" ? [target] : [...this.#keys.within(target)];
    for (const key of keys) {
      const before = this.#records.get(key);
      if (!before || before.at > at) continue;
      this.#addDeadLine(before);
      this.#records.delete(key);
      this.#keys.delete(key);
    }
  }

  #freeItems(tape: string, spans: readonly (readonly [number, number])[], at: number): void {
    const items = this.#tapes.get(tape);
    if (!items) return;
    const remove = (item: number): void => {
      const before = items.get(item);
      if (!before || before.at > at) return;
      this.#addDeadLine(before);
      items.delete(item);
    };
    for (const [first, count] of spans) {
      // A hostile line may list far more items than exist.
      if (count <= items.size) for (let item = first; item < first + count; item++) remove(item);
      else for (const item of items.keys()) if (item >= first && item < first + count) remove(item);
    }
    if (items.size === 0) this.#tapes.delete(tape);
  }

  #dropBlob(hash: string, at: number): void {
    const before = this.#blobs.get(hash);
    if (!before || before.at > at) return;
    this.#addDeadLine(before);
    this.#blobs.delete(hash);
  }

  /** The entry of the later commit. The line of the other one becomes dead. */
  #newer<T extends LineLocation & { readonly at: number }>(before: T | undefined, entry: T): T {
    const [winner, loser] = before && before.at > entry.at ? [before, entry] : [entry, before];
    if (loser) this.#addDeadLine(loser);
    return winner;
  }

  #addDeadLine({ file, length }: LineLocation): void {
    file.deadBytes += length;
    this.decayed.add(file);
  }
}

function toLocation({ file, offset, length }: LocatedLine): LineLocation {
  return { file, offset, length };
}

function toEntry(line: LocatedLine): CatalogEntry {
  const { head } = line;
  return { ...toLocation(line), at: head.at, refs: "refs" in head && head.refs !== undefined };
}
