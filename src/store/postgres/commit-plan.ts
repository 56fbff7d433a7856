/**
 * Plans a commit: decides everything that can be decided without the database.
 *
 * The plan is plain data. It determines which records are checked and replaced in one step, which of several puts of one record is
 * effective, and the numbers of items that the store assigns. Those numbers follow from the assumed value of a counter, which the
 * commit checks: if the counter has another value, the commit is planned again. No record occurs in two lists of a plan.
 */
import { commitConflict, type NumberedItems, numberItems, readCounter } from "../shared/index.js";
import {
  type BlobUse,
  type Check,
  type Commit,
  compareKeys,
  covers,
  type KeyRange,
  type Put,
} from "../contract/index.js";
import { type ChunkRow, type CompressedBody, packItems } from "../chunks/index.js";

/** The new version of a record. */
export type RecordWrite = Required<Put>;

/** The value that an existing record must have; `undefined` for any value. */
export interface ExpectedRecord {
  readonly key: string;
  readonly before: string | undefined;
}

export interface RecordUpdate extends ExpectedRecord {
  readonly put: RecordWrite;
}

export interface PlanOptions {
  /** The time in milliseconds; `undefined` for the clock of the database. */
  readonly clock: number | undefined;
  /** The assumed values of counters. */
  readonly counters: ReadonlyMap<string, string | undefined>;
  /** The stored form of blobs, by hash. */
  readonly blobs: ReadonlyMap<string, CompressedBody>;
  /** The number after that of the last item that this process has written to a tape; `undefined` if it is unknown. */
  readonly endOf: (tape: string) => number | undefined;
}

export interface CommitPlan {
  /** Conditions that certainly fail: nothing has to be sent. */
  readonly impossible: readonly string[];
  /** The earliest time by the clock of the database, in milliseconds. */
  readonly notBefore: number | undefined;
  /** The time in milliseconds; `undefined` for the clock of the database. */
  readonly clock: number | undefined;
  /** Records that are only checked. */
  readonly checks: readonly ExpectedRecord[];
  /** Records that must not exist, and are not written. */
  readonly absent: readonly string[];
  readonly updates: readonly RecordUpdate[];
  /** New records, which must not exist. */
  readonly inserts: readonly RecordWrite[];
  /** Records that are written whether they exist or not. */
  readonly upserts: readonly RecordWrite[];
  /** Records that are written if they do not exist. */
  readonly optional: readonly RecordWrite[];
  /** Records that are checked and deleted. */
  readonly removals: readonly ExpectedRecord[];
  /** Records that are deleted if they exist. */
  readonly deletes: readonly string[];
  /** Ranges that are deleted, except for the records that the plan names. */
  readonly ranges: readonly KeyRange[];
  readonly chunks: readonly ChunkRow[];
  /**
   * Whether the last chunk can collide only with one of the same first number: it has one item, and this process has written the
   * item before it. Other processes may have added items since, and packed them with those before. So the commit also replaces a
   * record whose value it checks: every append to a tape replaces the record from which the number of its first item follows.
   */
  readonly isNext: boolean;
  /** Blobs that must exist. */
  readonly usedBlobs: readonly string[];
  /** Blobs that are stored. */
  readonly storedBlobs: readonly (CompressedBody & { readonly hash: string })[];
  readonly wakes: readonly string[];
  /** The items, with their numbers. */
  readonly batches: readonly NumberedItems[];
  /** The values of counters after the commit. */
  readonly counters: ReadonlyMap<string, string>;
  /** Keys that fail if the assumed value of a counter was wrong: the counters and their tapes. */
  readonly assumed: ReadonlySet<string>;
  /** The records that exist after the commit. */
  readonly written: readonly RecordWrite[];
  readonly deleted: readonly string[];
}

/** Plans a commit. Throws if it is already known to fail. */
export function planCommit(commit: Commit, options: PlanOptions): CommitPlan {
  const { deletes = [], items = [], blobs = [] } = commit;
  const written = mergePuts(commit);
  const ranges = deletes.filter((each) => typeof each !== "string");
  const deletedKeys = new Set(deletes.filter((each) => typeof each === "string"));
  const isDeleted = (key: string): boolean => deletedKeys.has(key) || ranges.some((range) => covers(range, key));
  const { expected, impossible } = mergeChecks(commit.checks ?? []);
  const counters = new Map<string, string>();
  const assumed = new Set<string>();
  const batches = items.map((batch) => {
    if ("first" in batch) return numberItems(batch, batch.first);
    const { counter } = batch;
    const { value, isAssumed } = counterValue(counter, { counters, expected, written, isDeleted }, options);
    if (isAssumed) {
      assumed.add(counter);
      if (!expect(expected, counter, value)) impossible.push(counter);
    }
    if (assumed.has(counter)) assumed.add(batch.tape);
    const numbered = numberItems(batch, readCounter(counter, value ?? written.get(counter)?.value));
    counters.set(counter, String(numbered.first + numbered.items.length));
    return numbered;
  });
  for (const [key, value] of counters) written.set(key, { key, value, refs: "", ifAbsent: false });
  rejectOverlaps(batches);
  // The times of the database are integers.
  const notBefore = commit.notBefore === undefined ? undefined : Math.ceil(commit.notBefore);
  const { clock } = options;
  if (notBefore !== undefined && clock !== undefined && notBefore > clock) impossible.push("notBefore");
  const deleted = [...deletedKeys].filter((key) => !written.has(key));
  const records = groupRecords(expected, written, deleted, isDeleted);
  const chunks = batches.flatMap(({ tape, first, items: frames }) => packItems(tape, first, frames));
  const last = chunks.at(-1);
  // No spread: V8 creates a new hidden class for each copy of an object to which more than a few properties are added.
  return {
    checks: records.checks,
    absent: records.absent,
    updates: records.updates,
    inserts: records.inserts,
    upserts: records.upserts,
    optional: records.optional,
    removals: records.removals,
    deletes: records.deletes,
    impossible,
    notBefore: clock === undefined ? notBefore : undefined,
    clock,
    ranges,
    chunks,
    isNext: last?.count === 1 && options.endOf(last.tape) === last.first && replacesValue(records),
    usedBlobs: hashesOf(blobs.filter(({ bytes }) => !bytes)),
    storedBlobs: hashesOf(blobs.filter(({ bytes }) => bytes)).map((hash) => ({
      hash,
      ...(options.blobs.get(hash) as CompressedBody),
    })),
    wakes: commit.wakes ?? [],
    batches,
    counters,
    assumed,
    written: [...written.values()],
    deleted,
  };
}

function hashesOf(blobs: readonly BlobUse[]): string[] {
  return blobs.length === 0 ? [] : [...new Set(blobs.map(({ hash }) => hash))].sort();
}

/** Of several puts of one record, the last one counts. A put with `ifAbsent` sees the puts before it. */
function mergePuts({ puts = [] }: Commit): Map<string, RecordWrite> {
  const written = new Map<string, RecordWrite>();
  for (const { key, value, refs = "", ifAbsent = false } of puts) {
    if (!ifAbsent || !written.has(key)) written.set(key, { key, value, refs, ifAbsent });
  }
  return written;
}

/** What a record must be: missing, with any value, or with this one. */
type Expectation = { readonly value: string | undefined } | "exists";

/** Merges the checks of each record. Those that contradict each other can never hold. */
function mergeChecks(checks: readonly Check[]): { expected: Map<string, Expectation>; impossible: string[] } {
  const expected = new Map<string, Expectation>();
  const impossible: string[] = [];
  for (const check of checks) {
    const { key } = check;
    if ("value" in check) {
      // No string in PostgreSQL has a NUL character.
      if (check.value?.includes("\0") || !expect(expected, key, check.value)) impossible.push(key);
      continue;
    }
    const other = expected.get(key);
    if (other === undefined) expected.set(key, "exists");
    else if (other !== "exists" && other.value === undefined) impossible.push(key);
  }
  return { expected, impossible };
}

/** Adds the check of a value. @returns whether it agrees with the others of the record */
function expect(expected: Map<string, Expectation>, key: string, value: string | undefined): boolean {
  const other = expected.get(key);
  if (other === "exists" ? value === undefined : other && other.value !== value) return false;
  expected.set(key, { value });
  return true;
}

interface CounterContext {
  readonly counters: ReadonlyMap<string, string>;
  readonly expected: ReadonlyMap<string, Expectation>;
  readonly written: ReadonlyMap<string, RecordWrite>;
  readonly isDeleted: (key: string) => boolean;
}

/**
 * The value of a counter after the deletes and puts of the commit, and after its earlier batches of items.
 *
 * @returns also whether it is assumed, so that the commit has to check it
 */
function counterValue(
  counter: string,
  { counters, expected, written, isDeleted }: CounterContext,
  { counters: assumed }: PlanOptions,
): { value: string | undefined; isAssumed: boolean } {
  const raised = counters.get(counter);
  if (raised !== undefined) return { value: raised, isAssumed: false };
  const put = written.get(counter);
  if ((put && !put.ifAbsent) || isDeleted(counter)) return { value: put?.value, isAssumed: false };
  const expectation = expected.get(counter);
  if (expectation && expectation !== "exists") return { value: expectation.value, isAssumed: false };
  return { value: assumed.get(counter), isAssumed: true };
}

type RecordLists = Pick<
  CommitPlan,
  "checks" | "absent" | "updates" | "inserts" | "upserts" | "optional" | "removals" | "deletes"
>;

/** Groups the records of a commit by operation. All processes use the same order, which makes deadlocks rare. */
function groupRecords(
  expected: ReadonlyMap<string, Expectation>,
  written: ReadonlyMap<string, RecordWrite>,
  deleted: readonly string[],
  isDeleted: (key: string) => boolean,
): RecordLists {
  const checks: ExpectedRecord[] = [];
  const absent: string[] = [];
  const updates: RecordUpdate[] = [];
  const inserts: RecordWrite[] = [];
  const upserts: RecordWrite[] = [];
  const optional: RecordWrite[] = [];
  const removals: ExpectedRecord[] = [];
  for (const [key, expectation] of expected) {
    const put = written.get(key);
    if (expectation !== "exists" && expectation.value === undefined) {
      if (put) inserts.push(put);
      else absent.push(key);
      continue;
    }
    const before = expectation === "exists" ? undefined : expectation.value;
    // A record that exists keeps its value if the put has `ifAbsent`, unless it is deleted first.
    if (put && (!put.ifAbsent || isDeleted(key))) updates.push({ key, before, put });
    else if (!put && isDeleted(key)) removals.push({ key, before });
    else checks.push({ key, before });
  }
  for (const put of written.values()) {
    if (expected.has(put.key)) continue;
    if (put.ifAbsent && !isDeleted(put.key)) optional.push(put);
    else upserts.push(put);
  }
  return {
    checks: sortByKey(checks),
    absent: absent.sort(compareKeys),
    updates: sortByKey(updates),
    inserts: sortByKey(inserts),
    upserts: sortByKey(upserts),
    optional: sortByKey(optional),
    removals: sortByKey(removals),
    deletes: deleted.filter((key) => !expected.has(key)).sort(compareKeys),
  };
}

function replacesValue({ updates }: RecordLists): boolean {
  return updates.some(({ before }) => before !== undefined);
}

function sortByKey<Row extends { readonly key: string }>(rows: Row[]): Row[] {
  return rows.length < 2 ? rows : rows.sort((a, b) => compareKeys(a.key, b.key));
}

/** The records that a plan checks or writes by name. */
export function namedKeys(plan: CommitPlan): string[] {
  const keys: string[] = [];
  for (const rows of [plan.checks, plan.updates, plan.inserts, plan.upserts, plan.optional, plan.removals]) {
    for (const { key } of rows) keys.push(key);
  }
  return keys.concat(plan.absent, plan.deletes);
}

/** Rejects a commit that assigns a number twice. */
function rejectOverlaps(batches: readonly NumberedItems[]): void {
  if (batches.length < 2) return;
  const spans = batches
    .map(({ tape, first, items }) => ({ tape, first, count: items.length }))
    .filter(({ count }) => count > 0)
    .map(({ tape, first, count }) => ({ tape, first, end: first + count }));
  spans.sort((a, b) => compareKeys(a.tape, b.tape) || a.first - b.first);
  for (const [index, { tape, first }] of spans.entries()) {
    const before = spans[index - 1];
    if (before && before.tape === tape && before.end > first) throw commitConflict([{ key: tape }]);
  }
}
