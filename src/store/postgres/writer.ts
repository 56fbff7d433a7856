/**
 * Applies groups of commits: the statements of a group are one transaction, which takes one round trip and one wait for the disk
 * of the server.
 *
 * If a commit of a group fails, the server applies none of them. Then those before it are sent as a group, it is sent alone, and
 * those behind it follow. A commit that fails alone is diagnosed: the caller learns which conditions do not hold. If all of them
 * hold by now, or an assumed counter was wrong, the commit is planned and sent again.
 *
 * If the connection is cut, it is unknown whether the transaction was executed. It is sent again, and its checks prevent a second
 * execution: if a check then fails, and exactly the records and items of a commit are stored, it was applied. For items
 * that the store numbers, it is enough that the items are stored: other processes may have increased the counter since, and
 * numbering the items again would add them twice.
 */
import { SavepointError } from "../../errors.js";
import { LruMap } from "../../util/index.js";
import {
  commitConflict,
  type CommitOutcome,
  type FailedCheck,
  type NumberedItems,
  testHooksOf,
} from "../shared/index.js";
import { type ChunkRow, type CompressedBody, compressBlobs, unpackChunk } from "../chunks/index.js";
import { type Commit, compareKeys, type Frame } from "../contract/index.js";
import { readItems } from "./chunk-reader.js";
import { type CommitPlan, namedKeys, planCommit, type RecordWrite } from "./commit-plan.js";
import type { PostgresConnection } from "./connection.js";
import { findFailedConditions, readRecords } from "./diagnosis.js";
import type { Statement } from "./driver.js";
import { isConditionFailure, postgresFailure } from "./errors.js";
import type { PostgresOptions, PostgresWritePoint } from "./options.js";
import type { Printer, PrintOptions } from "./printer.js";
import { isIntact } from "./rows.js";

/** The most commits in one transaction. */
const MAX_GROUP = 128;
/** The most bytes of items and blobs in one transaction, if it has several commits: all of it is in memory at once. */
const MAX_GROUP_BYTES = 16 * 1024 * 1024;
/** The maximum numbers of cached values of counters and of cached ends of tapes. */
const MAX_COUNTERS = 10_000;
const MAX_TAPES = 10_000;
/** How often a commit is sent again because another process changed what it checks. Each time, the other process has made progress. */
const MAX_TRIES = 1000;

const NO_BLOBS: ReadonlyMap<string, CompressedBody> = new Map();

/** A commit that waits, and its outcome. */
interface Entry {
  readonly commit: Commit;
  outcome: CommitOutcome | undefined;
}

interface PlannedEntry {
  readonly entry: Entry;
  readonly plan: CommitPlan;
}

export interface WriterOptions {
  readonly print: Printer;
  readonly printing: PrintOptions;
  /** Called for each commit that was applied. */
  readonly onApplied: (batches: readonly NumberedItems[]) => void;
}

export class PostgresWriter {
  readonly #connection: PostgresConnection;
  readonly #options: PostgresOptions;
  readonly #writing: WriterOptions;
  readonly #probe: (point: PostgresWritePoint) => void;
  /** The last known values of counters. */
  readonly #counters = new LruMap<string, string>(MAX_COUNTERS);
  /** The numbers after those of the last items that this process has written to tapes. */
  readonly #ends = new LruMap<string, number>(MAX_TAPES);

  constructor(connection: PostgresConnection, options: PostgresOptions, writing: WriterOptions) {
    this.#connection = connection;
    this.#options = options;
    this.#writing = writing;
    this.#probe = testHooksOf(options).probe ?? (() => {});
  }

  async apply(commits: readonly Commit[]): Promise<readonly CommitOutcome[]> {
    const entries = commits.map((commit): Entry => ({ commit, outcome: undefined }));
    try {
      await this.#applyAll(entries);
    } catch (error) {
      // Applied commits stay applied. The other commits would wait for the same failure again.
      const failure = postgresFailure(error, this.#connection.url, "Writing to");
      for (const entry of entries) entry.outcome ??= failure;
    }
    return entries.map(({ outcome }) => outcome as CommitOutcome);
  }

  async #applyAll(entries: readonly Entry[]): Promise<void> {
    const commits = entries.map(({ commit }) => commit);
    const hasBlobs = commits.some(({ blobs }) => blobs?.length);
    const blobs = hasBlobs ? await compressBlobs(commits, this.#options.compress ?? true) : NO_BLOBS;
    /** The commit that has made its group fail. */
    let suspect: Entry | undefined;
    for (let [left, tries] = [entries, 0]; left.length > 0;) {
      this.#probe("begin");
      const at = suspect ? left.indexOf(suspect) : -1;
      const next = left.slice(0, at < 0 ? MAX_GROUP : Math.max(1, at));
      const { values, unknown } = this.#cachedCounters(next, tries > 0);
      if (unknown.length > 0) await this.#readCounters(unknown, values);
      const group = this.#plan(next, values, blobs);
      const failed = group.length > 0 ? await this.#send(group) : undefined;
      if (group.length === 1 && failed) {
        if (tries++ < MAX_TRIES) await this.#diagnose(failed);
        else failed.entry.outcome = tooManyTries();
      }
      suspect = failed && group.length > 1 ? failed.entry : suspect;
      const before = left.length;
      left = left.filter(({ outcome }) => outcome === undefined);
      if (left.length < before) tries = 0;
    }
  }

  /** Plans commits, in order, up to one that cannot be applied, which is alone. Those whose planning fails get their outcome. */
  #plan(
    entries: readonly Entry[],
    counters: Map<string, string | undefined>,
    blobs: ReadonlyMap<string, CompressedBody>,
  ): PlannedEntry[] {
    const clock = this.#options.now && Math.floor(this.#options.now());
    const endOf = (tape: string): number | undefined => this.#ends.peek(tape);
    const group: PlannedEntry[] = [];
    let bytes = 0;
    for (const entry of entries) {
      try {
        const plan = planCommit(entry.commit, { clock, counters, blobs, endOf });
        if (plan.impossible.length > 0 && group.length > 0) break;
        for (const { body } of plan.chunks) bytes += body.length;
        for (const { body } of plan.storedBlobs) bytes += body.length;
        if (bytes > MAX_GROUP_BYTES && group.length > 0) break;
        group.push({ entry, plan });
        if (plan.impossible.length > 0) break;
        if (counters.size === 0) continue;
        for (const { key, value, ifAbsent } of plan.written) {
          if (counters.has(key) && (!ifAbsent || counters.get(key) === undefined)) counters.set(key, value);
        }
        for (const key of plan.deleted) if (counters.has(key)) counters.set(key, undefined);
      } catch (error) {
        if (!(error instanceof SavepointError)) throw error;
        entry.outcome = error;
      }
    }
    return group;
  }

  /** The cached values of the counters of commits, and the counters that must be read: all of them if an assumption was wrong. */
  #cachedCounters(
    entries: readonly Entry[],
    rereads: boolean,
  ): { values: Map<string, string | undefined>; unknown: string[] } {
    const values = new Map<string, string | undefined>();
    for (const { commit } of entries) {
      if (!commit.items) continue;
      for (const batch of commit.items) {
        if ("counter" in batch) values.set(batch.counter, rereads ? undefined : this.#counters.get(batch.counter));
      }
    }
    const unknown: string[] = [];
    for (const [key, value] of values) if (value === undefined) unknown.push(key);
    return { values, unknown };
  }

  async #readCounters(keys: readonly string[], values: Map<string, string | undefined>): Promise<void> {
    for (const [key, row] of await readRecords(this.#connection, keys)) {
      // A damaged counter fails only the commits that need it.
      values.set(key, isIntact(row) ? row.value : "damaged");
    }
  }

  /** Sends a group. @returns the commit that has failed; then none of them was applied, except for those that have an outcome */
  async #send(group: readonly PlannedEntry[]): Promise<PlannedEntry | undefined> {
    const [first] = group;
    if (first && first.plan.impossible.length > 0) return first;
    const { print, printing } = this.#writing;
    const statements: Statement[] = [];
    const owners: PlannedEntry[] = [];
    for (const planned of inLockOrder(group)) {
      for (const statement of print(planned.plan, printing)) {
        statements.push(statement);
        owners.push(planned);
      }
    }
    let isUncertain = false;
    const running = this.#connection.write(statements, "Writing to", () => void (isUncertain = true));
    this.#probe("sent");
    const failure = await running;
    this.#probe("committed");
    if (!failure) {
      for (const planned of group) this.#finish(planned);
      return undefined;
    }
    if (isUncertain) for (const planned of await this.#findApplied(group)) this.#finish(planned);
    const failed = owners[failure.index] ?? (first as PlannedEntry);
    for (const { tape } of failed.plan.chunks) this.#ends.delete(tape);
    if (failed.entry.outcome) return undefined;
    if (group.length === 1 && !isConditionFailure(failure.cause)) {
      failed.entry.outcome = postgresFailure(failure.cause, this.#connection.url, "Writing to");
    }
    return failed;
  }

  #finish({ entry, plan }: PlannedEntry): void {
    for (const [key, value] of plan.counters) this.#counters.set(key, value);
    for (const { tape, first, count } of plan.chunks) this.#ends.set(tape, first + count);
    entry.outcome = { firsts: plan.batches.map(({ first }) => first) };
    this.#writing.onApplied(plan.batches);
  }

  /** Decides whether a commit that has failed alone conflicts. Otherwise it is sent again. */
  async #diagnose({ entry, plan }: PlannedEntry): Promise<void> {
    if (entry.outcome) return;
    const failed = await findFailedConditions(this.#connection, plan);
    const real = failed.filter((key) => plan.impossible.includes(key) || !plan.assumed.has(key));
    const isStale = real.length === 0 && failed.some((key) => plan.counters.has(key));
    if (failed.length === 0 || isStale) return;
    entry.outcome = commitConflict(sortByCheck(real.length > 0 ? real : failed, entry.commit));
  }

  /** The commits of a group that are known to be applied: all of them, or each one whose writes are stored. */
  async #findApplied(group: readonly PlannedEntry[]): Promise<readonly PlannedEntry[]> {
    if (group.length > 1) {
      const records = new Map<string, RecordWrite | undefined>();
      for (const { plan } of group) {
        for (const put of plan.written) if (!put.ifAbsent) records.set(put.key, put);
        for (const key of plan.deleted) records.set(key, undefined);
      }
      const chunks = group.flatMap(({ plan }) => plan.chunks);
      const hasWrites = records.size + chunks.length > 0;
      if (hasWrites && (await this.#isRecorded(records)) && (await this.#areStored(chunks))) return group;
    }
    const applied: PlannedEntry[] = [];
    for (const planned of group) if (await this.#isApplied(planned.plan)) applied.push(planned);
    return applied;
  }

  /** Whether everything that a commit writes is stored. */
  async #isApplied({ written, deleted, chunks, assumed }: CommitPlan): Promise<boolean> {
    if (assumed.size > 0 && chunks.length > 0) return this.#areStored(chunks);
    const records = new Map<string, RecordWrite | undefined>();
    for (const put of written) if (!put.ifAbsent) records.set(put.key, put);
    for (const key of deleted) records.set(key, undefined);
    if (records.size + chunks.length === 0) return false;
    return (await this.#isRecorded(records)) && this.#areStored(chunks);
  }

  /** Whether records are stored like this; `undefined` for a record that must be missing. */
  async #isRecorded(records: ReadonlyMap<string, RecordWrite | undefined>): Promise<boolean> {
    const found = await readRecords(this.#connection, [...records.keys()]);
    return [...records].every(([key, put]) => {
      const row = found.get(key);
      return put ? row?.value === put.value && row.refs === put.refs : !row;
    });
  }

  /** Whether these items are stored. They may have been packed with others meanwhile. */
  async #areStored(chunks: readonly ChunkRow[]): Promise<boolean> {
    const spans = chunks.map(({ tape, first, count }) => ({ tape, start: first, count }));
    const stored = await readItems(this.#connection, spans);
    const wanted = chunks.flatMap((chunk) => unpackChunk(chunk)) as readonly Frame[];
    return wanted.every(({ json, refs }, index) => {
      const item = stored[index];
      return item !== undefined && "json" in item && item.json === json && item.refs === refs;
    });
  }
}

/**
 * The order in which the commits of a group lock their records. Within one transaction it is not visible to others. Commits that
 * touch different records are sorted by their first key, so that two processes that write the same records rarely deadlock.
 */
function inLockOrder(group: readonly PlannedEntry[]): readonly PlannedEntry[] {
  if (group.length === 1) return group;
  const [keys, tapes, hashes] = [new Set<string>(), new Set<string>(), new Set<string>()];
  const keyed: { readonly key: string; readonly planned: PlannedEntry }[] = [];
  for (const planned of group) {
    const { plan } = planned;
    if (plan.ranges.length > 0) return group;
    let first = "";
    for (const key of namedKeys(plan)) {
      if (!addNew(keys, key)) return group;
      if (first === "" || compareKeys(key, first) < 0) first = key;
    }
    for (const [index, { tape }] of plan.chunks.entries()) {
      if (plan.chunks[index - 1]?.tape !== tape && !addNew(tapes, tape)) return group;
    }
    for (const hash of plan.usedBlobs) if (!addNew(hashes, hash)) return group;
    for (const { hash } of plan.storedBlobs) if (!addNew(hashes, hash)) return group;
    keyed.push({ key: first, planned });
  }
  return keyed.sort((a, b) => compareKeys(a.key, b.key)).map(({ planned }) => planned);
}

function addNew(names: Set<string>, name: string): boolean {
  return names.size < names.add(name).size;
}

/** The failed conditions of a commit in the order of its checks, with the tags of those. */
function sortByCheck(keys: readonly string[], { checks = [] }: Commit): FailedCheck[] {
  const place = (key: string): number => {
    const index = checks.findIndex((check) => check.key === key);
    return index < 0 ? checks.length : index;
  };
  const sorted = [...new Set(keys)].sort((a, b) => place(a) - place(b));
  return sorted.map((key) => checks[place(key)] ?? { key });
}

function tooManyTries(): SavepointError<"BUSY"> {
  return new SavepointError(
    "BUSY",
    "Writing failed: other processes keep changing what the commit depends on. Try again.",
  );
}
