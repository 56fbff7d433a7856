/**
 * What waits in the tail, laid over what is found in the tables: for reads at a time when the tail cannot be folded,
 * because another process writes, the disk is full, or an earlier write has failed.
 */
import {
  compareKeys,
  covers,
  type Frame,
  type ItemRefs,
  type ItemSpan,
  type KeyRange,
  type StoredRanges,
  type StoredRecord,
  type Unreadable,
  type UnreadableRecord,
} from "../contract/index.js";
import type { BufferEntry } from "./write-buffer.js";

type FoundRecord = StoredRecord | UnreadableRecord;

export class BufferOverlay {
  readonly #records = new Map<string, FoundRecord>();
  readonly #tapes = new Map<string, Map<number, Frame>>();

  constructor(rows: readonly BufferEntry[]) {
    for (const { commit } of rows) {
      // What cannot be read at all is reported when it is folded.
      if (!commit) continue;
      if ("lost" in commit) {
        for (const key of commit.lost) this.#records.set(key, { key, unreadable: `the record ${key} is damaged` });
        continue;
      }
      for (const put of commit.puts) this.#records.set(put.key, put);
      for (const { tape, first, items } of commit.items) {
        const ofTape = this.#tapes.get(tape) ?? new Map<number, Frame>();
        this.#tapes.set(tape, ofTape);
        for (const [index, frame] of items.entries()) ofTape.set(first + index, frame);
      }
    }
  }

  get(keys: readonly string[], found: readonly (FoundRecord | undefined)[]): (FoundRecord | undefined)[] {
    return keys.map((key, index) => this.#records.get(key) ?? found[index]);
  }

  /** The first `limit` records of both: those of the table beyond its own first ones come behind all of these. */
  list(range: KeyRange, limit: number, reverse: boolean, found: readonly FoundRecord[]): FoundRecord[] {
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
      const ofTape = this.#tapes.get(tape);
      for (let index = 0; index < count; index++, at++) all[at] = ofTape?.get(start + index) ?? (all[at] as Frame);
    }
    return all;
  }

  itemRefs({ tape, start, count }: ItemSpan, found: ItemRefs[] | Unreadable): ItemRefs[] | Unreadable {
    if ("unreadable" in found) return found;
    const waiting = [...(this.#tapes.get(tape) ?? [])]
      .filter(([item, { refs }]) => item >= start && item < start + count && refs !== "")
      .map(([item, { refs }]) => ({ item, refs }));
    return [...found, ...waiting].sort((a, b) => a.item - b.item);
  }

  tapes(range: KeyRange, found: readonly string[]): string[] {
    const waiting = [...this.#tapes.keys()].filter((tape) => covers(range, tape));
    return [...new Set([...found, ...waiting])].sort(compareKeys);
  }

  /** About as many as there will be: what is replaced counts until it is, and nothing is compressed yet. */
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
