/**
 * `memory:`, a store for tests, in maps. Its data is lost when the process ends. Tests compare the other stores with it, so it
 * is as simple as possible.
 */
import { getOrAdd, type Span } from "../../util/index.js";
import {
  CloseableStore,
  commitConflict,
  type FailedCheck,
  type ListOptions,
  type NumberedItems,
  numberItems,
  readCounter,
  type ReserveOptions,
  type RetainOptions,
  SortedKeys,
} from "../shared/index.js";
import {
  type Check,
  type Commit,
  type CommitResult,
  compareKeys,
  covers,
  type Frame,
  type Freed,
  type ItemRefs,
  type ItemSpan,
  type KeyRange,
  type Store,
  type StoredRanges,
  type StoredRecord,
  type Unreadable,
} from "../contract/index.js";

/** Opens an empty store in memory. */
export function openMemoryStore(options: { readonly now?: () => number } = {}): Store {
  return new MemoryStore(options.now ?? Date.now);
}

class MemoryStore extends CloseableStore implements Store {
  readonly url = "memory:";
  readonly capabilities = { durable: false, shared: false };
  readonly #records = new Map<string, StoredRecord>();
  readonly #tapes = new Map<string, Map<number, Frame>>();
  readonly #blobs = new Map<string, { bytes: Uint8Array; usedAt: number }>();
  readonly #clock: () => number;
  /** The times until which records are reserved, by key. */
  readonly #reserved = new Map<string, number>();
  readonly #listeners = new Set<(name: string) => void>();
  /** The keys of the records, in order. */
  readonly #keys = new SortedKeys();

  constructor(clock: () => number) {
    super();
    this.#clock = clock;
  }

  async get(keys: readonly string[]): Promise<(StoredRecord | undefined)[]> {
    this.assertOpen();
    return keys.map((key) => this.#records.get(key));
  }

  async list(range: KeyRange, { limit, reverse = false }: ListOptions): Promise<StoredRecord[]> {
    this.assertOpen();
    const found: StoredRecord[] = [];
    if (limit <= 0) return found;
    for (const key of reverse ? this.#keys.withinReversed(range) : this.#keys.within(range)) {
      found.push(this.#records.get(key) as StoredRecord);
      if (found.length >= limit) break;
    }
    return found;
  }

  async items(spans: readonly ItemSpan[]): Promise<(Frame | Unreadable)[]> {
    this.assertOpen();
    const found: (Frame | Unreadable)[] = [];
    for (const { tape, start, count } of spans) {
      const items = this.#tapes.get(tape);
      for (let item = start; item < start + count; item++) {
        found.push(items?.get(item) ?? { unreadable: `item ${item} of tape ${tape} is missing` });
      }
    }
    return found;
  }

  async blob(hash: string): Promise<Uint8Array | Unreadable> {
    this.assertOpen();
    const blob = this.#blobs.get(hash);
    return blob ? Uint8Array.from(blob.bytes) : { unreadable: `blob ${hash} is missing` };
  }

  async commit(commit: Commit): Promise<CommitResult> {
    this.assertOpen();
    const failed: FailedCheck[] = (commit.checks ?? []).filter((check) => !this.#holds(check));
    if (commit.notBefore !== undefined && this.#clock() < commit.notBefore) failed.push({ key: "notBefore" });
    for (const { hash, bytes } of commit.blobs ?? []) if (!bytes && !this.#blobs.has(hash)) failed.push({ key: hash });
    if (failed.length > 0) throw commitConflict(failed);
    const batches = this.#assignNumbers(commit);

    for (const target of commit.deletes ?? []) this.#delete(target);
    for (const { key, value, refs = "", ifAbsent } of commit.puts ?? []) {
      if (ifAbsent && this.#records.has(key)) continue;
      this.#put({ key, value, refs });
      this.#reserved.delete(key);
    }
    for (const [index, { tape, first, items }] of batches.entries()) {
      for (const [offset, frame] of items.entries()) {
        getOrAdd(this.#tapes, tape, () => new Map<number, Frame>()).set(first + offset, frame);
      }
      const batch = commit.items?.[index];
      if (batch && "counter" in batch) {
        this.#put({ key: batch.counter, value: String(first + items.length), refs: "" });
      }
    }
    for (const { hash, bytes } of commit.blobs ?? []) {
      const existing = this.#blobs.get(hash)?.bytes;
      this.#blobs.set(hash, { bytes: existing ?? Uint8Array.from(bytes as Uint8Array), usedAt: this.#clock() });
    }
    // Listeners are called after the commit resolves.
    for (const name of commit.wakes ?? []) for (const listener of this.#listeners) setImmediate(listener, name);
    return { firsts: batches.map(({ first }) => first) };
  }

  async now(): Promise<number> {
    this.assertOpen();
    return this.#clock();
  }

  async itemRefs({ tape, start, count }: ItemSpan): Promise<ItemRefs[]> {
    this.assertOpen();
    return [...(this.#tapes.get(tape) ?? [])]
      .filter(([item, frame]) => item >= start && item < start + count && frame.refs !== "")
      .sort(([a], [b]) => a - b)
      .map(([item, frame]) => ({ item, refs: frame.refs }));
  }

  async tapes(range: KeyRange): Promise<string[]> {
    this.assertOpen();
    return [...this.#tapes.keys()].filter((tape) => covers(range, tape)).sort(compareKeys);
  }

  async retain(tape: string, live: readonly Span[], { below }: RetainOptions): Promise<Freed> {
    this.assertOpen();
    const items = this.#tapes.get(tape);
    let freed = 0;
    let bytes = 0;
    for (const [item, frame] of items ?? []) {
      if (item >= below || live.some((span) => item >= span.start && item < span.start + span.count)) continue;
      items?.delete(item);
      freed++;
      bytes += frame.json.length + frame.refs.length;
    }
    if (items?.size === 0) this.#tapes.delete(tape);
    return { items: freed, bytes };
  }

  async heal(tape: string, items: ReadonlyMap<number, Frame>): Promise<number> {
    this.assertOpen();
    const stored = getOrAdd(this.#tapes, tape, () => new Map<number, Frame>());
    const missing = [...items].filter(([item]) => !stored.has(item));
    for (const [item, frame] of missing) stored.set(item, frame);
    if (stored.size === 0) this.#tapes.delete(tape);
    return missing.length;
  }

  async blobs({ after, limit }: { after: string; limit: number }): Promise<string[]> {
    this.assertOpen();
    return [...this.#blobs.keys()]
      .filter((hash) => hash > after)
      .sort()
      .slice(0, limit);
  }

  async dropBlobs(hashes: readonly string[], { unusedSince }: { unusedSince: number }): Promise<Freed> {
    this.assertOpen();
    let items = 0;
    let bytes = 0;
    for (const hash of hashes) {
      const blob = this.#blobs.get(hash);
      if (!blob || blob.usedAt >= unusedSince) continue;
      this.#blobs.delete(hash);
      items++;
      bytes += blob.bytes.length;
    }
    return { items, bytes };
  }

  async compact(): Promise<void> {
    this.assertOpen();
  }

  async bytes(): Promise<number> {
    this.assertOpen();
    let bytes = 0;
    for (const { key, value, refs } of this.#records.values()) bytes += key.length + value.length + refs.length;
    for (const tape of this.#tapes.values()) {
      for (const frame of tape.values()) bytes += frame.json.length + frame.refs.length;
    }
    for (const blob of this.#blobs.values()) bytes += blob.bytes.length;
    return bytes;
  }

  async bytesOf({ records, tapes }: StoredRanges): Promise<number> {
    this.assertOpen();
    let bytes = 0;
    for (const range of records) {
      for (const { key, value, refs } of this.#records.values()) {
        if (covers(range, key)) bytes += key.length + value.length + refs.length;
      }
    }
    for (const range of tapes) {
      for (const [tape, items] of this.#tapes) {
        if (!covers(range, tape)) continue;
        for (const { json, refs } of items.values()) bytes += json.length + refs.length;
      }
    }
    return bytes;
  }

  async reserve(ranges: readonly KeyRange[], { limit, forMs }: ReserveOptions): Promise<StoredRecord[]> {
    const now = this.#clock();
    const available: StoredRecord[] = [];
    for (const range of ranges) {
      const records = await this.list(range, { limit: Number.MAX_SAFE_INTEGER });
      available.push(...records.filter(({ key }) => (this.#reserved.get(key) ?? 0) <= now));
    }
    const reserved = available.slice(0, limit);
    for (const { key } of reserved) this.#reserved.set(key, now + forMs);
    return reserved;
  }

  async listen(listener: (name: string) => void): Promise<() => Promise<void>> {
    this.assertOpen();
    this.#listeners.add(listener);
    return async () => void this.#listeners.delete(listener);
  }

  protected async release(): Promise<void> {
    this.#listeners.clear();
  }

  #holds(check: Check): boolean {
    const record = this.#records.get(check.key);
    return "exists" in check ? record !== undefined : record?.value === check.value;
  }

  /** Assigns the numbers of each batch. Throws `CONFLICT` for a number that exists, before anything is written. */
  #assignNumbers(commit: Commit): NumberedItems[] {
    const next = new Map<string, number>();
    const added = new Map<string, Set<number>>();
    return (commit.items ?? []).map((batch) => {
      let first: number;
      if ("first" in batch) first = batch.first;
      else {
        first = next.get(batch.counter) ?? readCounter(batch.counter, this.#valueAfter(commit, batch.counter));
      }
      const numbered = numberItems(batch, first);
      const { length } = numbered.items;
      if ("counter" in batch) next.set(batch.counter, first + length);
      const addedToTape = getOrAdd(added, batch.tape, () => new Set<number>());
      for (let item = first; item < first + length; item++) {
        if (addedToTape.has(item) || this.#tapes.get(batch.tape)?.has(item))
          throw commitConflict([{ key: batch.tape }]);
        addedToTape.add(item);
      }
      return numbered;
    });
  }

  /** The value of a record after the deletes and puts of a commit: counters are read after them. */
  #valueAfter({ deletes = [], puts = [] }: Commit, key: string): string | undefined {
    let value = deletes.some((target) => isTarget(target, key)) ? undefined : this.#records.get(key)?.value;
    for (const put of puts) if (put.key === key && !(put.ifAbsent && value !== undefined)) value = put.value;
    return value;
  }

  #put(record: StoredRecord): void {
    if (!this.#records.has(record.key)) this.#keys.add(record.key);
    this.#records.set(record.key, record);
  }

  #delete(target: string | KeyRange): void {
    for (const key of typeof target === "string" ? [target] : [...this.#keys.within(target)]) {
      this.#records.delete(key);
      this.#keys.delete(key);
      this.#reserved.delete(key);
    }
  }
}

function isTarget(target: string | KeyRange, key: string): boolean {
  return typeof target === "string" ? target === key : covers(target, key);
}
