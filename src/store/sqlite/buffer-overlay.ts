/**
 * Adds the commits of the write buffer to what was read from the tables: for reads while the buffer cannot be flushed, because
 * another process writes, the disk is full, or an earlier write has failed.
 */
import {
  compareKeys,
  covers,
  type Frame,
  type ItemRefs,
  type ItemSpan,
  type KeyRange,
  type StoredRanges,
  type Unreadable,
} from "../contract/index.js";
import { getOrAdd } from "../../util/index.js";
import type { RecordResult } from "../shared/index.js";
import type { BufferEntry } from "./buffer-codec.js";

/** The contents of the write buffer. Each method takes the result of a read of the tables and completes it. */
export class BufferOverlay {
  readonly #records = new Map<string, RecordResult>();
  readonly #tapes = new Map<string, Map<number, Frame>>();

  constructor(entries: readonly BufferEntry[]) {
    for (const { commit } of entries) {
      // A commit whose keys are unknown is reported when the buffer is flushed.
      if (!commit) continue;
      if ("lost" in commit) {
        for (const key of commit.lost) this.#records.set(key, { key, unreadable: `the record ${key} is damaged` });
        continue;
      }
      for (const { key, value, refs = "" } of commit.puts) this.#records.set(key, { key, value, refs });
      for (const { tape, first, items } of commit.items) {
        const buffered = getOrAdd(this.#tapes, tape, () => new Map<number, Frame>());
        for (const [index, frame] of items.entries()) buffered.set(first + index, frame);
      }
    }
  }

  get(keys: readonly string[], found: readonly (RecordResult | undefined)[]): (RecordResult | undefined)[] {
    return keys.map((key, index) => this.#records.get(key) ?? found[index]);
  }

  /** The first `limit` records of both. Further records of the table would sort behind all of these. */
  list(range: KeyRange, limit: number, reverse: boolean, found: readonly RecordResult[]): RecordResult[] {
    const all = new Map(found.map((record) => [record.key, record]));
    for (const [key, record] of this.#records) {
      if (covers(range, key)) all.set(key, record);
    }
    const sorted = [...all.values()].sort((a, b) => compareKeys(a.key, b.key));
    return (reverse ? sorted.reverse() : sorted).slice(0, limit);
  }

  items(spans: readonly ItemSpan[], found: readonly (Frame | Unreadable)[]): (Frame | Unreadable)[] {
    const all = [...found];
    let at = 0;
    for (const { tape, start, count } of spans) {
      const items = this.#tapes.get(tape);
      for (let index = 0; index < count; index++, at++) all[at] = items?.get(start + index) ?? (all[at] as Frame);
    }
    return all;
  }

  itemRefs({ tape, start, count }: ItemSpan, found: ItemRefs[] | Unreadable): ItemRefs[] | Unreadable {
    if ("unreadable" in found) return found;
    const buffered = [...(this.#tapes.get(tape) ?? [])]
      .filter(([item, { refs }]) => item >= start && item < start + count && refs !== "")
      .map(([item, { refs }]) => ({ item, refs }));
    return [...found, ...buffered].sort((a, b) => a.item - b.item);
  }

  tapes(range: KeyRange, found: readonly string[]): string[] {
    const buffered = [...this.#tapes.keys()].filter((tape) => covers(range, tape));
    return [...new Set([...found, ...buffered])].sort(compareKeys);
  }

  /** An estimate: replaced values still count, and nothing is compressed yet. */
  bytesOf({ records, tapes }: StoredRanges, found: number): number {
    let bytes = found;
    for (const [key, record] of this.#records) {
      if (!("value" in record) || !records.some((range) => covers(range, key))) continue;
      bytes += Buffer.byteLength(key) + Buffer.byteLength(record.value) + Buffer.byteLength(record.refs);
    }
    for (const [tape, items] of this.#tapes) {
      if (!tapes.some((range) => covers(range, tape))) continue;
      for (const { json, refs } of items.values()) bytes += Buffer.byteLength(json) + Buffer.byteLength(refs);
    }
    return bytes;
  }
}
