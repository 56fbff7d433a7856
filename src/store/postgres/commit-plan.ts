/**
 * What a commit is, as the arguments of the function in the database.
 *
 * Everything that can be decided without looking is decided here: which records are checked and replaced in one go, what
 * is left of several puts of one record, and the numbers of items that the store is to number. Those follow from what
 * their counter is believed to hold, which the commit then checks: if it holds something else, the commit is planned anew.
 */
import { commitConflict, readCounter } from "../shared/index.js";
import { type Check, type Commit, compareKeys, covers, type ItemBatch } from "../contract/index.js";
import { type CompressedBody, packItems, type ChunkRow } from "../chunks/index.js";
import {
  bytes,
  type Column,
  columns as filledColumns,
  integers,
  RECORD_ARRAYS,
  CHUNK_ARRAYS,
  texts,
} from "./columns.js";
import type { PostgresValue } from "./driver.js";
import { CHECK, PUT } from "./functions.js";
import { refsSum, valueSum } from "./rows.js";

/** What a record becomes. */
export interface RecordWrite {
  readonly key: string;
  readonly value: string;
  readonly refs: string;
  readonly ifAbsent: boolean;
}

export interface PlanOptions {
  /** The time, where it is not the database's. */
  readonly clock: number | undefined;
  readonly durable: boolean;
  readonly channel: string;
  /** What counters are believed to hold. */
  readonly counters: ReadonlyMap<string, string | undefined>;
  /** Those of them that were looked at just now. */
  readonly fresh: ReadonlySet<string>;
  /** Bytes as they are stored, by hash. */
  readonly blobs: ReadonlyMap<string, CompressedBody>;
}

export interface CommitPlan {
  /** The arguments of the function. */
  readonly values: () => PostgresValue[];
  readonly records: RecordChanges;
  /** Are they all there is, beside items, single deletes, and a time by the server's clock? */
  readonly isPlain: boolean;
  readonly notBefore: number | undefined;
  readonly firsts: readonly number[];
  /** What the counters hold after it. */
  readonly counters: ReadonlyMap<string, string>;
  /** Names that are in the way where what was believed of a counter was wrong: those counters, and their tapes. */
  readonly assumed: ReadonlySet<string>;
  /** What is there once it is applied. */
  readonly written: readonly RecordWrite[];
  readonly deleted: readonly string[];
  readonly rows: readonly ChunkRow[];
}

/** Plans a commit. Throws where it can be told already that it cannot be applied. */
export function planCommit(commit: Commit, options: PlanOptions): CommitPlan {
  const { deletes = [], items = [], blobs = [] } = commit;
  const written = foldPuts(commit);
  const ranges = deletes.filter((each) => typeof each !== "string");
  const keys = deletes.filter((each) => typeof each === "string");
  const singly = new Set(keys);
  const isDeleted = (key: string): boolean => singly.has(key) || ranges.some((range) => covers(range, key));
  const counters = new Map<string, string>();
  const checks = [...(commit.checks ?? [])];
  const guessed = new Set<string>();
  const firsts = items.map((run) => {
    if ("first" in run) return run.first;
    const { counter } = run;
    const known = checks.length;
    const first = readCounter(counter, nextOf(counter, counters, written, isDeleted, options, checks));
    if (checks.length !== known || checks.at(-1)?.key === counter) guessed.add(counter);
    if (guessed.has(counter)) guessed.add(run.tape);
    counters.set(counter, String(first + run.items.length));
    return first;
  });
  for (const [key, value] of counters) written.set(key, { key, value, refs: "", ifAbsent: false });
  const rows = items.flatMap(({ tape, items: frames }, index) => packItems(tape, firsts[index] as number, frames));
  refuseOverlaps(items, firsts);
  const sorted = sortOut(checks, written, isDeleted);
  const uses = new Map(
    blobs.map(({ hash, bytes: given }) => [
      `${hash} ${given !== undefined}`,
      [hash, given && options.blobs.get(hash)] as const,
    ]),
  );
  // The database's times have no fractions: the next whole one is not before it.
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
        texts(({ before }) => possible(before)),
        integers(({ put, before }) => valueSum(put.key, before)),
        integers(({ put }) => valueSum(put.key, put.value)),
        integers(({ put }) => refsSum(put.key, put.refs)),
        texts(({ put }) => put.refs),
        texts(({ put }) => put.value),
      ]),
      ...columns(sorted.checked, [
        texts(({ key }) => key),
        texts(({ value }) => possible(value)),
        integers(({ key, value = "" }) => valueSum(key, value)),
        integers(({ kind }) => kind),
      ]),
      ...columns(keys, [texts((key) => key)]),
      ...columns(ranges, [texts(({ from }) => from), texts(({ to }) => to)]),
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
      ...columns([...guessed], [texts((name) => name)]),
    ],
    firsts,
    counters,
    assumed: guessed,
    written: [...written.values()],
    deleted: keys.filter((key) => !written.has(key)),
    rows,
  };
}

/** Of several puts of one record the last one counts, and those that want none to be there see those before them. */
function foldPuts({ puts = [] }: Commit): Map<string, RecordWrite> {
  const written = new Map<string, RecordWrite>();
  for (const { key, value, refs = "", ifAbsent = false } of puts) {
    if (!ifAbsent || !written.has(key)) written.set(key, { key, value, refs, ifAbsent });
  }
  return written;
}

/** What a counter holds after the deletes and puts of the commit, and after the runs before. */
function nextOf(
  counter: string,
  counters: ReadonlyMap<string, string>,
  written: ReadonlyMap<string, RecordWrite>,
  isDeleted: (key: string) => boolean,
  { counters: believed, fresh }: PlanOptions,
  checks: Check[],
): string | undefined {
  const raised = counters.get(counter);
  if (raised !== undefined) return raised;
  const put = written.get(counter);
  if (put && !put.ifAbsent) return put.value;
  if (isDeleted(counter)) return put?.value;
  const value = believed.get(counter);
  // This check says all that others may say of it.
  const known = checks.findIndex((check) => check.key === counter && "exists" in check);
  if (known >= 0 && value !== undefined) checks.splice(known, 1);
  // To look again would be to find the same.
  if (known >= 0 && value === undefined && fresh.has(counter)) throw commitConflict([{ key: counter }]);
  if (!checks.some((check) => check.key === counter && "value" in check)) checks.push({ key: counter, value });
  return value ?? put?.value;
}

/** The records of a commit, by what is done with them. */
export interface RecordChanges {
  readonly replaced: { readonly put: RecordWrite; readonly before: string }[];
  readonly checked: { readonly key: string; readonly value: string | undefined; readonly kind: number }[];
  readonly put: { readonly put: RecordWrite; readonly kind: number }[];
}

/** What is replaced if it has one value, what is only checked, and what is put; in an order that all who commit share. */
function sortOut(
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

/** No number twice within a commit. */
function refuseOverlaps(runs: readonly ItemBatch[], firsts: readonly number[]): void {
  const ends = runs
    .map((run, index) => ({ tape: run.tape, first: firsts[index] as number, count: run.items.length }))
    .filter(({ count }) => count > 0)
    .map(({ tape, first, count }) => ({ tape, first, end: first + count }));
  ends.sort((a, b) => compareKeys(a.tape, b.tape) || a.first - b.first);
  for (const [index, run] of ends.entries()) {
    const before = ends[index - 1];
    if (before && before.tape === run.tape && before.end > run.first) throw commitConflict([{ key: run.tape }]);
  }
}

/** No text in the database has a NUL character: what is expected to have one is null, which nothing is equal to. */
function possible(value: string | undefined): string | undefined {
  return value?.includes("\0") ? undefined : value;
}

/** Of an empty list nothing is sent: null costs nothing. */
function columns<T>(things: readonly T[], of: readonly Column<T>[]): PostgresValue[] {
  return things.length === 0 ? of.map(() => null) : filledColumns(things, of);
}
