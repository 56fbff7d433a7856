/**
 * What is in a store, and where: the place of every record, item and blob, never their texts. It is what all lines of all
 * files say together: of two about the same thing the one of the later commit counts.
 */
import { compareKeys, covers, type KeyRange } from "../contract/index.js";
import type { Slices } from "../../util/index.js";
import { SortedKeys } from "../shared/index.js";
import type { DataFile } from "./data-file.js";
import type { LineHead } from "./lines.js";

/** Where a line is. */
export interface LineLocation {
  readonly file: DataFile;
  readonly offset: number;
  /** With its end; 0 where the line is lost. */
  readonly length: number;
}

/** A line that was found, or is known to be lost. */
export interface LocatedLine extends LineLocation {
  readonly head: LineHead;
}

/** A record or an item. */
export interface CatalogEntry extends LineLocation {
  readonly at: number;
  /** Does it point at anything? */
  readonly refs: boolean;
}

export interface CatalogBlob extends LineLocation {
  readonly at: number;
  readonly used: number;
  readonly bytes: number;
}

/** Names that are collected in one slice. */
const MANY = 4096;

export class Catalog {
  readonly #records = new Map<string, CatalogEntry>();
  readonly #keys = new SortedKeys();
  readonly #tapes = new Map<string, Map<number, CatalogEntry>>();
  readonly #blobs = new Map<string, CatalogBlob>();
  /** The last commit that is known. */
  lastCommit = 0;

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

  /** The items of a tape, in order. */
  itemsOf(tape: string): [number, CatalogEntry][] {
    return [...(this.#tapes.get(tape) ?? [])].sort(([a], [b]) => a - b);
  }

  /** The items of a tape with these numbers, as far as there are any, in order. */
  itemsWithin(tape: string, start: number, count: number): [number, CatalogEntry][] {
    const items = this.#tapes.get(tape);
    if (!items || count > items.size)
      return this.itemsOf(tape).filter(([item]) => item >= start && item < start + count);
    const found: [number, CatalogEntry][] = [];
    for (let item = start; item < start + count; item++) {
      const entry = items.get(item);
      if (entry) found.push([item, entry]);
    }
    return found;
  }

  tapes(range: KeyRange): string[] {
    return [...this.#tapes.keys()].filter((tape) => covers(range, tape)).sort(compareKeys);
  }

  hashes(): string[] {
    return [...this.#blobs.keys()].sort();
  }

  /** Is this line still true? Of lines by which something went nobody can tell here. */
  isLive(found: LocatedLine): boolean {
    const entry = this.#entryOf(found.head);
    if (entry?.file !== found.file || entry.length !== found.length) return false;
    // What is lost has no place of its own.
    return entry.offset === found.offset || entry.length === 0;
  }

  /** Takes in what a line says. Lines of one commit come in the order they were written in. */
  apply(found: LocatedLine): void {
    const { head } = found;
    this.lastCommit = Math.max(this.lastCommit, head.at);
    if ("put" in head) this.#put(head.put, toEntry(found));
    else if ("item" in head) this.#item(head.tape, head.item, toEntry(found));
    else if ("blob" in head)
      this.#use(head.blob, { ...toPlace(found), at: head.at, used: head.used, bytes: head.bytes });
    else {
      found.file.removals.push(head);
      if ("delete" in head) this.#delete(head.delete, head.at);
      else if ("free" in head) this.#free(head.free, head.spans, head.at);
      else this.#drop(head.drop, head.at);
    }
  }

  /** Collects the names of everything in the store, by file, in slices. Nothing may be written before this ends. */
  *heads(): Slices<Map<DataFile, LineHead[]>> {
    const heads = new Map<DataFile, LineHead[]>();
    let count = 0;
    for (const [file, head] of this.#heads()) {
      const known = heads.get(file);
      if (known) known.push(head);
      else heads.set(file, [head]);
      if (++count % MANY === 0) yield;
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

  /** Is anything lost that was in this file? */
  hasLostEntries(file: DataFile): boolean {
    const isLost = (entry: LineLocation): boolean => entry.file === file && entry.length === 0;
    for (const entry of this.#records.values()) if (isLost(entry)) return true;
    for (const items of this.#tapes.values()) for (const entry of items.values()) if (isLost(entry)) return true;
    return false;
  }

  /** Forgets what is in these files. */
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

  #put(key: string, entry: CatalogEntry): void {
    const before = this.#records.get(key);
    if (!before) this.#keys.add(key);
    this.#records.set(key, newer(before, entry));
  }

  #item(tape: string, item: number, entry: CatalogEntry): void {
    let items = this.#tapes.get(tape);
    if (!items) this.#tapes.set(tape, (items = new Map()));
    items.set(item, newer(items.get(item), entry));
  }

  #use(hash: string, entry: CatalogBlob): void {
    this.#blobs.set(hash, newer(this.#blobs.get(hash), entry));
  }

  #delete(target: string | KeyRange, at: number): void {
    const keys = typeof target === "string" ? [target] : [...this.#keys.within(target)];
    for (const key of keys) {
      const before = this.#records.get(key);
      if (!before || before.at > at) continue;
      before.file.deadBytes += before.length;
      this.#records.delete(key);
      this.#keys.delete(key);
    }
  }

  #free(tape: string, spans: readonly (readonly [number, number])[], at: number): void {
    const items = this.#tapes.get(tape);
    if (!items) return;
    const remove = (item: number): void => {
      const before = items.get(item);
      if (!before || before.at > at) return;
      before.file.deadBytes += before.length;
      items.delete(item);
    };
    for (const [first, count] of spans) {
      // A damaged or hostile line may name more items than there are.
      if (count <= items.size) for (let item = first; item < first + count; item++) remove(item);
      else for (const item of items.keys()) if (item >= first && item < first + count) remove(item);
    }
    if (items.size === 0) this.#tapes.delete(tape);
  }

  #drop(hash: string, at: number): void {
    const before = this.#blobs.get(hash);
    if (!before || before.at > at) return;
    before.file.deadBytes += before.length;
    this.#blobs.delete(hash);
  }
}

function toPlace({ file, offset, length }: LocatedLine): LineLocation {
  return { file, offset, length };
}

function toEntry(found: LocatedLine): CatalogEntry {
  const { head } = found;
  return { ...toPlace(found), at: head.at, refs: "refs" in head && head.refs !== undefined };
}

/** The one of the later commit; the other one's line is not true any more. */
function newer<T extends LineLocation & { readonly at: number }>(before: T | undefined, entry: T): T {
  const [winner, loser] = before && before.at > entry.at ? [before, entry] : [entry, before];
  if (loser) loser.file.deadBytes += loser.length;
  return winner;
}
