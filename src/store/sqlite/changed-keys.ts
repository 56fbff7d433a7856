/**
 * The keys of the records that this process has written, so that an update of the search index compares only those with their
 * marks. Keys that other processes have written are not included: after such a write, all records are compared.
 */
import { type Commit, compareKeys, covers, type KeyRange } from "../contract/index.js";

/** The most keys and ranges that are remembered. With more of them, comparing all records takes no longer. */
const MAX_TARGETS = 10_000;

/** The records of one range that may differ from their marks. */
interface Changes {
  readonly keys: Set<string>;
  ranges: KeyRange[];
}

export class ChangedKeys {
  /** SQLite's data version, which changes when another connection has written. */
  #version: number | undefined;
  readonly #changes = new Map<string, { readonly range: KeyRange; readonly changes: Changes }>();

  /** Forgets everything, because records may have changed by other means. */
  forget(): void {
    this.#changes.clear();
  }

  /** Adds the records of a commit that is being written. */
  add({ puts = [], items = [], deletes = [] }: Commit): void {
    if (this.#changes.size === 0) return;
    for (const { key } of puts) this.#addKey(key);
    for (const batch of items) if ("counter" in batch) this.#addKey(batch.counter);
    for (const target of deletes) {
      if (typeof target === "string") this.#addKey(target);
      else this.#addRange(target);
    }
  }

  /** The records of a range that may differ from their marks; `undefined` if all may. */
  of(range: KeyRange, version: number | undefined): Readonly<Changes> | undefined {
    if (version !== this.#version) this.forget();
    this.#version = version;
    return this.#changes.get(nameOf(range))?.changes;
  }

  /** Sets the records of a range that differ from their marks, after a comparison. */
  set(range: KeyRange, keys: readonly string[]): void {
    this.#changes.set(nameOf(range), { range, changes: { keys: new Set(keys), ranges: [] } });
  }

  #addKey(key: string): void {
    for (const [name, { range, changes }] of this.#changes) {
      if (!covers(range, key)) continue;
      changes.keys.add(key);
      if (changes.keys.size > MAX_TARGETS) this.#changes.delete(name);
    }
  }

  #addRange(target: KeyRange): void {
    for (const [name, { range, changes }] of this.#changes) {
      if (compareKeys(target.from, range.to) >= 0 || compareKeys(range.from, target.to) >= 0) continue;
      // A range that is cut at both ends would have to be compared in parts.
      const isWithin = compareKeys(target.from, range.from) >= 0 && compareKeys(target.to, range.to) <= 0;
      if (isWithin) changes.ranges.push(target);
      if (!isWithin || changes.ranges.length > MAX_TARGETS) this.#changes.delete(name);
    }
  }
}

function nameOf({ from, to }: KeyRange): string {
  return JSON.stringify([from, to]);
}
