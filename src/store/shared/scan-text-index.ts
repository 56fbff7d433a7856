/**
 * A text index in memory that scans every document: for stores without an index of their own.
 *
 * It is exact, and lost when the process ends. Other indexes are compared with it in tests, so it is as simple as possible:
 * `changes` reads every record of its ranges.
 */
import { checksum } from "./checksum.js";
import {
  covers,
  DOCUMENTS_PER_SOURCE,
  isSameSource,
  type KeyRange,
  type Mark,
  type Store,
  type TextIndex,
  type TextSource,
  type TextUpdate,
} from "../contract/index.js";
import { pickByKey } from "../../util/index.js";
import { type RecordResult, scan } from "./scan.js";

/** Stands for the content of every unreadable record. No checksum is negative. */
const UNREADABLE_SUM = -1;

/** Opens an empty index of the documents of this store. */
export function openScanTextIndex(store: Pick<Store, "list">): TextIndex {
  return new ScanTextIndex(store);
}

interface Entry {
  readonly source: TextSource;
  readonly texts: readonly string[];
}

class ScanTextIndex implements TextIndex {
  readonly #store: Pick<Store, "list">;
  readonly #marks = new Map<string, number>();
  readonly #entries = new Map<string, Entry>();
  #lastId = 0;

  constructor(store: Pick<Store, "list">) {
    this.#store = store;
  }

  async changes(ranges: readonly KeyRange[], limit: number): Promise<Mark[]> {
    const found: Mark[] = [];
    for (const range of ranges) {
      const removed = new Set([...this.#marks.keys()].filter((key) => covers(range, key)));
      for await (const record of scan(this.#store, range)) {
        const { key } = record;
        const sum = sumOf(record);
        removed.delete(key);
        if (this.#marks.get(key) !== sum) found.push({ key, sum });
        if (found.length >= limit) return found.slice(0, limit);
      }
      for (const key of removed) found.push({ key, sum: undefined });
    }
    return found.slice(0, limit);
  }

  async sources(names: readonly string[]): Promise<(TextSource | undefined)[]> {
    return names.map((name) => this.#entries.get(name)?.source);
  }

  async sourcesById(ids: readonly number[]): Promise<(TextSource | undefined)[]> {
    const sources = [...this.#entries.values()].map(({ source }) => source);
    return pickByKey(ids, sources, ({ id }) => id);
  }

  async update({ sources, marks }: TextUpdate): Promise<boolean> {
    if (!sources.every(({ name, before }) => isSameSource(this.#entries.get(name)?.source, before))) return false;
    for (const { name, before, from, texts: added, note } of sources) {
      if (note === undefined) {
        this.#entries.delete(name);
        continue;
      }
      const texts = [...(this.#entries.get(name)?.texts ?? []).slice(0, from), ...added];
      const id = before?.id ?? ++this.#lastId;
      this.#entries.set(name, { source: { id, name, count: texts.length, note }, texts });
    }
    for (const { key, sum } of marks) {
      if (sum === undefined) this.#marks.delete(key);
      else this.#marks.set(key, sum);
    }
    return true;
  }

  async find(text: string, { below, limit }: { below: number; limit: number }): Promise<number[]> {
    const found: number[] = [];
    for (const { source, texts } of [...this.#entries.values()].sort((a, b) => b.source.id - a.source.id)) {
      for (let index = texts.length - 1; index >= 0 && found.length < limit; index--) {
        const number = source.id * DOCUMENTS_PER_SOURCE + index;
        if (number < below && texts[index]?.includes(text)) found.push(number);
      }
    }
    return found;
  }

  async remove(names: readonly string[]): Promise<void> {
    for (const name of names) {
      this.#entries.delete(name);
      this.#marks.delete(name);
    }
  }

  async clear(): Promise<void> {
    this.#marks.clear();
    this.#entries.clear();
  }
}

function sumOf(record: RecordResult): number {
  return "value" in record ? checksum(record.key, record.refs, record.value) : UNREADABLE_SUM;
}
