/**
 * A catalog whose older part is in a catalog file, and whose newer part, the commits since then, is in memory. Only for reading: a
 * process that writes scans all files first.
 */
import { compareKeys, covers, type KeyRange } from "../contract/index.js";
import { addToList } from "../../util/index.js";
import { Catalog, type CatalogEntry, type LocatedLine } from "./catalog.js";
import type { CatalogFile } from "./catalog-file.js";

export class IndexedCatalog extends Catalog {
  readonly #base: CatalogFile;
  /** Records of the catalog file that were removed since. Records that were put again are in memory. */
  readonly #deletedKeys = new Set<string>();
  readonly #deletedRanges: KeyRange[] = [];
  /** Items of the catalog file that were freed since, by tape. */
  readonly #freed = new Map<string, (readonly [first: number, count: number])[]>();

  constructor(base: CatalogFile) {
    super();
    this.#base = base;
    this.lastCommit = base.lastCommit;
    for (const { hash, at, used, bytes, ...location } of base.blobs)
      super.apply({ ...location, head: { blob: hash, used, bytes, at } });
  }

  override record(key: string): CatalogEntry | undefined {
    return super.record(key) ?? (this.#isDeleted(key) ? undefined : this.#base.record(key));
  }

  override item(tape: string, item: number): CatalogEntry | undefined {
    return super.item(tape, item) ?? (this.#isFreed(tape, item) ? undefined : this.#base.item(tape, item));
  }

  override *keys(range: KeyRange, reverse = false): Generator<string> {
    const newer = super.keys(range, reverse);
    const older = this.#base.keys(range, reverse);
    const sign = reverse ? -1 : 1;
    let [a, b] = [newer.next(), older.next()];
    while (!a.done || !b.done) {
      const order = a.done ? 1 : b.done ? -1 : sign * compareKeys(a.value, b.value);
      if (order <= 0 && !a.done) yield a.value;
      else if (!b.done && !this.#isDeleted(b.value)) yield b.value;
      if (order <= 0) a = newer.next();
      if (order >= 0) b = older.next();
    }
  }

  override itemsOf(tape: string): [number, CatalogEntry][] {
    return this.itemsWithin(tape, 0, Number.POSITIVE_INFINITY);
  }

  override itemsWithin(tape: string, start: number, count: number): [number, CatalogEntry][] {
    const older = [...this.#base.itemsBetween(tape, start, start + count)].filter(([n]) => !this.#isFreed(tape, n));
    const newer = super.itemsOf(tape).filter(([item]) => item >= start && item < start + count);
    return [...new Map([...older, ...newer])].sort(([a], [b]) => a - b);
  }

  override tapes(range: KeyRange): string[] {
    const older = this.#base.tapes().filter((tape) => covers(range, tape) && this.itemsOf(tape).length > 0);
    return [...new Set([...older, ...super.tapes(range)])].sort(compareKeys);
  }

  override apply(line: LocatedLine): void {
    super.apply(line);
    const { head } = line;
    if ("free" in head) for (const span of head.spans) addToList(this.#freed, head.free, span);
    else if ("delete" in head) {
      if (typeof head.delete === "string") this.#deletedKeys.add(head.delete);
      else this.#deletedRanges.push(head.delete);
    }
  }

  #isDeleted(key: string): boolean {
    return this.#deletedKeys.has(key) || this.#deletedRanges.some((range) => covers(range, key));
  }

  #isFreed(tape: string, item: number): boolean {
    return this.#freed.get(tape)?.some(([first, count]) => item >= first && item < first + count) ?? false;
  }
}
