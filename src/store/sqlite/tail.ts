/**
 * The tail: commits that have one row each, and wait to be folded into the other tables many at a time.
 *
 * A save replaces the records of its branch and adds a row and a few items: five pages, of which four are written again
 * by the next save. In the tail it is one row at the end of one table. That is possible where the checks of a commit can
 * be told from memory: this process wrote the records last, and nobody else has written anything since. Any other commit
 * is written to the tables at once, after the tail was folded, and so is the tail before anything is read. A session that
 * is saved and not read, as agents do, pays for the tables once in a hundred saves.
 *
 * All of it happens inside the transactions of the writer: what is in the tail is as durable as anything else, and
 * whoever opens the file next folds what is there.
 */
import { commitConflict } from "../conflict.js";
import type { Commit, CommitResult, Put } from "../store.js";
import type { Connection } from "./connection.js";
import { backgroundReport, type SqliteOptions, type WritePoint } from "./options.js";
import { markLost, putRecords } from "./records.js";
import { packRun } from "./run-codec.js";
import { appendRun, RUN_BYTES, RUN_ITEMS } from "./rows.js";
import type { Sealer } from "./sealer.js";
import { packCommit, type TailRow, type TailRun, unpackCommit } from "./tail-codec.js";

/** Commits, or bytes of them, that may wait: whoever reads next waits until they are folded. */
const MAX_ROWS = 128;
const MAX_BYTES = 131_072;
/** A larger commit, by the length of its items, is written to the tables at once: writing it twice would cost more. */
const MAX_LENGTH = 16_384;
/** Records and tapes that are remembered, those used last. */
const MAX_KNOWN = 20_000;

const INSERT = "INSERT INTO savepoint_tail (names, names_sum, sum, body) VALUES (?, ?, ?, ?)";

export class Tail {
  readonly #connection: Connection;
  readonly #sealer: Sealer;
  readonly #probe: (point: WritePoint) => void;
  readonly #report: (message: string, error: unknown) => void;
  readonly #enabled: boolean;
  /** Records as they are, in the tail or in the table. */
  readonly #values = new Recent<string>(MAX_KNOWN);
  /** The number behind the last item of a tape. */
  readonly #ends = new Recent<number>(MAX_KNOWN);
  /** Changes when another connection has written. */
  #version = -1;
  #rows = 0;
  #bytes = 0;

  /** @param enabled may commits wait in the tail? Not where others may write through this very connection */
  constructor(connection: Connection, sealer: Sealer, options: SqliteOptions, enabled: boolean) {
    this.#connection = connection;
    this.#sealer = sealer;
    this.#enabled = enabled;
    this.#probe = options.probe ?? (() => {});
    this.#report = backgroundReport(options);
  }

  /** Is it worth folding, for its own sake? */
  get isFull(): boolean {
    return this.#rows >= MAX_ROWS || this.#bytes >= MAX_BYTES;
  }

  /** Is there nothing to fold, from whomever? */
  get isEmpty(): boolean {
    return this.#connection.row("SELECT 1 FROM savepoint_tail LIMIT 1") === undefined;
  }

  /** To be called at the beginning of a transaction: what was known is forgotten if somebody else has written. */
  begin(): void {
    const version = this.#connection.row<{ data_version: number }>("PRAGMA data_version")?.data_version ?? -1;
    if (version !== this.#version) this.forget();
    this.#version = version;
  }

  /** Nothing is known any more: a transaction has failed. */
  forget(): void {
    this.#values.clear();
    this.#ends.clear();
  }

  /**
   * Writes a commit to the tail if that can be done; throws if its checks fail.
   *
   * @returns `undefined` where it has to be written to the tables
   */
  append(commit: Commit): CommitResult | undefined {
    if (!this.#enabled || !this.#mayWait(commit)) return undefined;
    const { checks = [], items = [] } = commit;
    const failed = checks.filter(({ key, ...check }) => "value" in check && this.#values.get(key) !== check.value);
    if (failed.length > 0) throw commitConflict(failed.map(({ key }) => key));
    this.#probe("checked");
    const row = packCommit(commit);
    this.#connection.run(INSERT, row.names, row.names_sum, row.sum, row.body);
    this.#probe("tail");
    this.#rows++;
    this.#bytes += row.body.length;
    this.note(commit);
    return { firsts: items.map((run) => ("first" in run ? run.first : 0)) };
  }

  /** Notes what was written to the tables, or to the tail. */
  note({ puts = [], items = [], deletes = [] }: Commit): void {
    if (deletes.length > 0) this.forget();
    for (const { key, value, ifAbsent, refs = "" } of puts) {
      // Rows, which have refs, are put once: they would only crowd out what saves come back to.
      if (ifAbsent || refs !== "") this.#values.delete(key);
      else this.#values.set(key, value);
    }
    for (const run of items) {
      if ("first" in run) this.#ends.set(run.tape, run.first + run.items.length);
      else this.#values.delete(run.counter);
    }
  }

  /** Can its checks be told from memory, and is it nothing but records and items? */
  #mayWait({ checks = [], puts = [], items = [], deletes = [], blobs = [], notBefore }: Commit): boolean {
    if (deletes.length > 0 || blobs.length > 0 || notBefore !== undefined || checks.length === 0) return false;
    if (puts.some((put) => put.ifAbsent) || !checks.every(({ key }) => this.#values.has(key))) return false;
    const [run, ...others] = items;
    // Two runs might overlap each other.
    if (!run || others.length > 0) return !run;
    if (!("first" in run) || run.first < (this.#ends.get(run.tape) ?? Number.POSITIVE_INFINITY)) return false;
    let length = 0;
    for (const { json } of run.items) length += json.length;
    return length <= MAX_LENGTH;
  }

  /** Writes all that waits to the tables. To be called inside a transaction. */
  fold(): void {
    const rows = this.#connection.rows<TailRow>("SELECT names, names_sum, sum, body FROM savepoint_tail ORDER BY id");
    this.#rows = this.#bytes = 0;
    if (rows.length === 0) return;
    const puts = new Map<string, Put | undefined>();
    const runs = new Map<string, TailRun[]>();
    for (const row of rows) {
      const commit = unpackCommit(row);
      if (!commit) this.#setAside(row);
      else if ("lost" in commit) for (const key of commit.lost) puts.set(key, undefined);
      else {
        for (const put of commit.puts) puts.set(put.key, put);
        for (const run of commit.runs) runs.set(run.tape, join(runs.get(run.tape) ?? [], run));
      }
    }
    const lost = [...puts.keys()].filter((key) => !puts.get(key));
    const kept = [...puts.values()].filter((put) => put !== undefined);
    putRecords(this.#connection, kept.sort(byKey), false);
    markLost(this.#connection, lost);
    for (const ofTape of runs.values()) for (const run of ofTape) this.#writeRun(run);
    this.#probe("fold:written");
    this.#connection.run("DELETE FROM savepoint_tail");
  }

  #writeRun({ tape, first, items }: TailRun): void {
    let from = 0;
    let bytes = 0;
    for (const [index, { json }] of items.entries()) {
      bytes += json.length;
      if (bytes < RUN_BYTES && index - from + 1 < RUN_ITEMS && index < items.length - 1) continue;
      const part = items.slice(from, index + 1);
      // Were it there already, against all expectation, failing now would keep everything from being read for ever.
      const added = appendRun(this.#connection, packRun(tape, first + from, part), part.length);
      if (!added) this.#report(`items ${first + from} and on of tape ${tape} were there already`, undefined);
      this.#sealer.noteNew({ tape, first: first + from, items: part });
      from = index + 1;
      bytes = 0;
    }
  }

  /** A row of which nobody can tell what it was about is kept, for somebody who can. */
  #setAside(row: TailRow): void {
    this.#connection.run(
      "INSERT INTO savepoint_lost (names, names_sum, sum, body) VALUES (?, ?, ?, ?)",
      row.names,
      row.names_sum,
      row.sum,
      row.body,
    );
    const error = new Error("The row is in the table savepoint_lost now.");
    this.#report("a commit is damaged so badly that nobody can tell what it was; a session has lost a save", error);
  }
}

/** Adds a run to those of its tape: items that follow one another become one. */
function join(runs: TailRun[], run: TailRun): TailRun[] {
  const last = runs.at(-1);
  if (last && last.first + last.items.length === run.first) {
    (last.items as TailRun["items"][number][]).push(...run.items);
  } else runs.push({ ...run, items: [...run.items] });
  return runs;
}

function byKey(a: Put, b: Put): number {
  return a.key < b.key ? -1 : 1;
}

/** A map that forgets what was set longest ago. */
class Recent<T> {
  readonly #entries = new Map<string, T>();
  readonly #size: number;

  constructor(size: number) {
    this.#size = size;
  }

  get(key: string): T | undefined {
    return this.#entries.get(key);
  }

  has(key: string): boolean {
    return this.#entries.has(key);
  }

  set(key: string, value: T): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    const [oldest] = this.#entries.keys();
    if (this.#entries.size > this.#size && oldest !== undefined) this.#entries.delete(oldest);
  }

  delete(key: string): void {
    this.#entries.delete(key);
  }

  clear(): void {
    this.#entries.clear();
  }
}
