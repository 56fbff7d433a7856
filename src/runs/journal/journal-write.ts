/**
 * The writes of a journal, as plain data: pending entries encoded for their place on the tape, and the commit that contains them
 * and the journal's record.
 */
import { checkRunRecord, type CommitParts } from "../../sessions/index.js";
import { encodeJournal, type JournalRecord, tapeName } from "../../records/index.js";
import type { ItemBatch } from "../../store/index.js";
import type { StreamWrite } from "../streams/index.js";
import type { encodeItems } from "./encoded-value.js";
import { type EncodedEntries, encodeEntries, type JournalOperation, type StoredResult } from "./entry.js";

/** The fields of the journal's record that a write may change besides its entries. */
export type JournalChange = Partial<Pick<JournalRecord, "head" | "failures" | "worked" | "loop" | "cancelReason">>;

/** Pending entries, encoded for their place on the tape. */
export interface JournalBatch extends EncodedEntries {
  /** The number of pending entries that it contains. */
  readonly entryCount: number;
  /** The number of entries that were written before them. */
  readonly writtenBefore: number;
  /** The results that no earlier batch contained. A batch whose write failed is encoded once. */
  readonly newResults: readonly StoredResult[];
  readonly output: ReturnType<typeof encodeItems> | undefined;
}

/** A planned write: the parts of its commit, and the journal's record after it. */
export interface JournalWrite extends Pick<JournalBatch, "entryCount" | "newResults"> {
  readonly parts: CommitParts;
  readonly record: JournalRecord;
  readonly value: string;
  /** The number of items of the journal up to its first `added` entries. @default all entries of the write */
  countAfter(added?: number): number;
  /** The number of the item with the output. */
  readonly output: number | undefined;
  /** The deltas that are written with it. */
  readonly stream: StreamWrite | undefined;
}

/** The checkpoint with which the next step starts, and whether it stays in the history. */
export interface StepBoundary {
  readonly seq: number;
  readonly shown: boolean;
}

/** No entries. */
export const NOTHING: EncodedEntries = { items: [], blobs: new Map(), results: [], ends: [] };

/** Encodes the entries behind those that are already encoded, for their place on the tape. */
export function appendEntries(
  before: EncodedEntries,
  added: readonly JournalOperation[],
  tape: number,
  next: number,
): { all: EncodedEntries; fresh: readonly StoredResult[] } {
  const more = encodeEntries(added, tape, next + before.items.length);
  const all = {
    items: [...before.items, ...more.items],
    blobs: new Map([...before.blobs, ...more.blobs]),
    results: [...before.results, ...more.results],
    ends: [...before.ends, ...more.ends.map((end) => before.items.length + end)],
  };
  return { all, fresh: more.results };
}

/**
 * Plans the write of a batch, with changes to the record.
 *
 * @param before the record before the write, and its encoding
 * @param boundary the checkpoint with which the next step starts, if the write ends the current one, and whether it stays in
 *   the history; if it does not, the entries of the step are listed with those of the next step
 * @param stream the deltas that are part of the write
 */
export function planJournalWrite(
  key: string,
  { record: before, value: valueBefore }: { readonly record: JournalRecord; readonly value: string },
  { items, blobs, newResults, ends, entryCount, writtenBefore, output }: JournalBatch,
  change: JournalChange,
  boundary: StepBoundary | undefined,
  stream: StreamWrite | undefined,
): JournalWrite {
  const next = before.first + before.count;
  const all = output ? [...items, ...output.items] : items;
  const changed = { ...before, ...change, ...(stream && { stream: stream.position }) };
  const record: JournalRecord = boundary
    ? { ...changed, ...startStep(before, next + all.length, boundary) }
    : { ...changed, count: before.count + items.length };
  const value = encodeJournal(record);
  const batch: ItemBatch = { tape: tapeName(before.number, before.tape), first: next, items: all };
  const parts: CommitParts = {
    checks: [checkRunRecord(key, valueBefore)],
    puts: [{ key, value }],
    items: [...(all.length > 0 ? [batch] : []), ...(stream?.items ? [stream.items] : [])],
    blobs: new Map([...blobs, ...(output?.blobs ?? [])]),
  };
  const countAfter = (added = writtenBefore + entryCount): number =>
    before.count + (ends[added - writtenBefore - 1] ?? 0);
  return { parts, record, value, entryCount, newResults, countAfter, output: output?.at, stream };
}

/** The fields of a journal at the start of a step whose entries begin with the item `first`. */
function startStep(before: JournalRecord, first: number, { seq, shown }: StepBoundary): Partial<JournalRecord> {
  const { listedFrom = before.first } = before;
  const isListed = shown || listedFrom === first;
  return {
    first,
    count: 0,
    boundary: seq,
    head: seq,
    origin: seq,
    listedFrom: isListed ? undefined : listedFrom,
  };
}
