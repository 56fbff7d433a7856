/**
 * Plans a commit: decides everything that can be decided without the database, and encodes the arguments of the function.
 *
 * The plan determines which records are checked and replaced in one step, which of several puts of one record counts, and
 * the numbers of items that the store assigns. Those numbers follow from the assumed value of a counter, which the commit
 * checks: if the counter has another value, the commit is planned again.
 */
import { commitConflict, readCounter } from "../shared/index.js";
import { type Check, type Commit, compareKeys, covers, type ItemBatch, type Put } from "../contract/index.js";
import { type CompressedBody, packItems, type ChunkRow } from "../chunks/index.js";
import {
  bytes,
  type Column,
  columns as filledColumns,
  integers,
  RANGE_ARRAYS,
  RECORD_ARRAYS,
  CHUNK_ARRAYS,
  texts,
} from "./columns.js";
import type { PostgresValue } from "./driver.js";
import { CHECK, PUT } from "./functions.js";
import { refsSum, valueSum } from "./rows.js";

/** The new version of a record. */
export type RecordWrite = Required<Put>;

export interface PlanOptions {
  /** The time in milliseconds; `undefined` for the clock of the database. */
  readonly clock: number | undefined;
  readonly durable: boolean;
  readonly channel: string;
  /** The assumed values of counters. */
  readonly counters: ReadonlyMap<string, string | undefined>;
  /** Counters whose values were just read. */
  readonly fresh: ReadonlySet<string>;
  /** The stored form of blobs, by hash. */
  readonly blobs: ReadonlyMap<string, CompressedBody>;
}

export interface CommitPlan {
  /** The arguments of the function. */
  readonly values: () => PostgresValue[];
  readonly records: RecordChanges;
  /** Whether there is nothing else but items, deletes of single keys, and a time by the clock of the server. */
  readonly isPlain: boolean;
  readonly notBefore: number | undefined;
  readonly firsts: readonly number[];
  /** The values of counters after the commit. */
  readonly counters: ReadonlyMap<string, string>;
  /** Keys that fail if the assumed value of a counter was wrong: the counters and their tapes. */
  readonly assumed: ReadonlySet<string>;
  /** The records that exist after the commit. */
  readonly written: readonly RecordWrite[];
  readonly deleted: readonly string[];
  readonly rows: readonly ChunkRow[];
}

/** Plans a commit. Throws if it is already known to fail. */
export function planCommit(commit: Commit, options: PlanOptions): CommitPlan {
  const { deletes = [], items = [], blobs = [] } = commit;
  const written = mergePuts(commit);
  const ranges = deletes.filter((each) => typeof each !== "string");
  const keys = deletes.filter((each) => typeof each === "string");
  const deletedKeys = new Set(keys);
  const isDeleted = (key: string): boolean => deletedKeys.has(key) || ranges.some((range) => covers(range, key));
  const counters = new Map<string, string>();
  const checks = [...(commit.checks ?? [])];
  const assumed = new Set<string>();
  const firsts = items.map((batch) => {
    if ("first" in batch) return batch.first;
    const { counter } = batch;
    const checksBefore = checks.length;
    const first = readCounter(counter, counterValue(counter, counters, written, isDeleted, options, checks));
    if (checks.length !== checksBefore || checks.at(-1)?.key === counter) assumed.add(counter);
    if (assumed.has(counter)) assumed.add(batch.tape);
    counters.set(counter, String(first + batch.items.length));
    return first;
  });
  for (const [key, value] of counters) written.set(key, { key, value, refs: "", ifAbsent: false });
  const rows = items.flatMap(({ tape, items: frames }, index) => packItems(tape, firsts[index] as number, frames));
  rejectOverlaps(items, firsts);
  const sorted = groupRecords(checks, written, isDeleted);
  const uses = new Map(
    blobs.map(({ hash, bytes: content }) => [
      `${hash} ${content !== undefined}`,
      [hash, content && options.blobs.get(hash)] as const,
    ]),
  );
  // The times of the database are integers.
  const notBefore = commit.notBefore === undefined ? undefined : Math.ceil(commit.notBefore);
  return {
    records: sorted,
    isPlain:
      ranges.length + blobs.length + (commit.wakes?.length ?? 0) === 0 &&
      !keys.some((key) => written.has(key)) &&
      (notBefore === undefined || options.clock === undefined),
    notBefore,
    values: () => [
      options.clock ?? null,
      String(options.durable),
      notBefore ?? null,
      ...columns(sorted.replaced, [
        texts(({ put }) => put.key),
        texts(({ before }) => comparable(before)),
        integers(({ put, before }) => valueSum(put.key, before)),
        integers(({ put }) => valueSum(put.key, put.value)),
        integers(({ put }) => refsSum(put.key, put.refs)),
        texts(({ put }) => put.refs),
        texts(({ put }) => put.value),
      ]),
      ...columns(sorted.checked, [
        texts(({ key }) => key),
        texts(({ value }) => comparable(value)),
        integers(({ key, value = "" }) => valueSum(key, value)),
        integers(({ kind }) => kind),
      ]),
      ...columns(keys, [texts((key) => key)]),
      ...columns(ranges, RANGE_ARRAYS),
      ...columns(
        sorted.put.map(({ put }) => put),
        RECORD_ARRAYS,
      ),
      ...columns(sorted.put, [integers(({ kind }) => kind)]),
      ...columns(rows, [texts(({ tape }) => tape), ...CHUNK_ARRAYS]),
      ...columns(
        [...uses.values()],
        [texts(([hash]) => hash), integers(([, packed]) => packed?.codec ?? 0), bytes(([, packed]) => packed?.body)],
      ),
      options.channel,
      ...columns(commit.wakes ?? [], [texts((name) => name)]),
      ...columns([...assumed], [texts((name) => name)]),
    ],
    firsts,
    counters,
    assumed,
    written: [...written.values()],
    deleted: keys.filter((key) => !written.has(key)),
    rows,
  };
}

/** Of several puts of one record, the last one counts. A put with `ifAbsent` sees the puts before it. */
function mergePuts({ puts = [] }: Commit): Map<string, RecordWrite> {
  const written = new Map<string, RecordWrite>();
  for (const { key, value, refs = "", ifAbsent = false } of puts) {
    if (!ifAbsent || !written.has(key)) written.set(key, { key, value, refs, ifAbsent });
  }
  return written;
}

/** The value of a counter after the deletes and puts of the commit, and after its earlier batches of items. */
function counterValue(
  counter: string,
  counters: ReadonlyMap<string, string>,
  written: ReadonlyMap<string, RecordWrite>,
  isDeleted: (key: string) => boolean,
  { counters: assumed, fresh }: PlanOptions,
  checks: Check[],
): string | undefined {
  const raised = counters.get(counter);
  if (raised !== undefined) return raised;
  const put = written.get(counter);
  if (put && !put.ifAbsent) return put.value;
  if (isDeleted(counter)) return put?.value;
  const value = assumed.get(counter);
  // The check of the value implies the check that the counter exists.
  const existsCheck = checks.findIndex((check) => check.key === counter && "exists" in check);
  if (existsCheck >= 0 && value !== undefined) checks.splice(existsCheck, 1);
  // Reading the counter again would find the same.
  if (existsCheck >= 0 && value === undefined && fresh.has(counter)) throw commitConflict([{ key: counter }]);
  if (!checks.some((check) => check.key === counter && "value" in check)) checks.push({ key: counter, value });
  return value ?? put?.value;
}

/** The records of a commit, grouped by operation. */
export interface RecordChanges {
  readonly replaced: { readonly put: RecordWrite; readonly before: string }[];
  readonly checked: { readonly key: string; readonly value: string | undefined; readonly kind: number }[];
  readonly put: { readonly put: RecordWrite; readonly kind: number }[];
}

/** Groups the records of a commit. All processes use the same order, which makes deadlocks rare. */
function groupRecords(
  checks: readonly Check[],
  written: ReadonlyMap<string, RecordWrite>,
  isDeleted: (key: string) => boolean,
): RecordChanges {
  const times = new Map<string, number>();
  for (const { key } of checks) times.set(key, (times.get(key) ?? 0) + 1);
  const sorted: RecordChanges = { replaced: [], checked: [], put: [] };
  const done = new Set<string>();
  for (const check of checks) {
    const { key } = check;
    const put = written.get(key);
    const alone = times.get(key) === 1 && !isDeleted(key);
    if ("exists" in check) sorted.checked.push({ key, value: undefined, kind: CHECK.exists });
    else if (check.value !== undefined && alone && put && !put.ifAbsent) {
      sorted.replaced.push({ put, before: check.value });
      done.add(key);
    } else if (check.value === undefined && alone && put) {
      sorted.put.push({ put, kind: PUT.mustBeNew });
      done.add(key);
    } else {
      const isWritten = put !== undefined || isDeleted(key);
      const kind = check.value === undefined ? CHECK.absent : isWritten ? CHECK.valueOfWritten : CHECK.value;
      sorted.checked.push({ key, value: check.value, kind });
    }
  }
  for (const put of written.values()) {
    if (!done.has(put.key)) sorted.put.push({ put, kind: put.ifAbsent ? PUT.ifAbsent : PUT.always });
  }
  sorted.replaced.sort((a, b) => compareKeys(a.put.key, b.put.key));
  sorted.checked.sort((a, b) => compareKeys(a.key, b.key));
  sorted.put.sort((a, b) => compareKeys(a.put.key, b.put.key));
  return sorted;
}

/** Rejects a commit that assigns a number twice. */
function rejectOverlaps(batches: readonly ItemBatch[], firsts: readonly number[]): void {
  const spans = batches
    .map(({ tape, items }, index) => ({ tape, first: firsts[index] as number, count: items.length }))
    .filter(({ count }) => count > 0)
    .map(({ tape, first, count }) => ({ tape, first, end: first + count }));
  spans.sort((a, b) => compareKeys(a.tape, b.tape) || a.first - b.first);
  for (const [index, { tape, first }] of spans.entries()) {
    const before = spans[index - 1];
    if (before && before.tape === tape && before.end > first) throw commitConflict([{ key: tape }]);
  }
}

/** An expected value for a comparison. Strings in PostgreSQL have no NUL character, so a value with one is null: it equals nothing. */
function comparable(value: string | undefined): string | undefined {
  return value?.includes("\0") ? undefined : value;
}

/** The columns of a list. Those of an empty list are null, which costs nothing. */
function columns<T>(rows: readonly T[], of: readonly Column<T>[]): PostgresValue[] {
  return rows.length === 0 ? of.map(() => null) : filledColumns(rows, of);
}
