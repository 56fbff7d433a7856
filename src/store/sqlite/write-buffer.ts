/**
 * The tail: commits that have one row each, and wait to be folded into the other tables many at a time.
 *
 * A save replaces the records of its branch and adds a row and a few items: five pages, of which four are written again
 * by the next save. In the tail it is one row at the end of one table. That is possible where the checks of a commit can
 * be told from memory: this process wrote the records last, and nobody else has written anything since. Any other commit
 * is written to the tables at once. What waits is folded before any of it is read or written there. A session that
 * is saved and not read, as agents do, pays for the tables once in a hundred saves. Where the tail cannot be folded just
 * now (another process writes, the disk is full), a reader adds what waits to what it finds; see waiting.ts.
 *
 * All of it happens inside the transactions of the writer: what is in the tail is as durable as anything else, and
 * whoever opens the file next folds what is there.
 */
import { commitConflict, testHooksOf } from "../shared/index.js";
import { createFailureReporter, type Commit, type CommitResult, type Put } from "../contract/index.js";
import type { Connection } from "./connection.js";
import type { SqliteOptions, WritePoint } from "./options.js";
import { isCorrupt } from "./errors.js";
import { markRecordsLost, putRecords } from "./records.js";
import { Recent } from "./recent-records.js";
import { appendItems } from "./rows.js";
import type { Packer } from "./packer.js";
import {
  encodeCommit,
  type BufferedCommit,
  type BufferRow,
  type BufferedItems,
  toBufferedCommit,
  decodeCommit,
} from "./buffer-codec.js";

/** Commits, or bytes of them, that may wait: whoever reads next waits until they are folded. */
const MAX_ROWS = 128;
const MAX_BYTES = 262_144;
/** A larger commit, by the length of its items, is written to the tables at once: writing it twice would cost more. */
const MAX_LENGTH = 16_384;
/** How many of the most recent records and tapes are remembered, and how many characters these records may have. */
const MAX_KNOWN = 20_000;
const MAX_KNOWN_LENGTH = 4_194_304;

const INSERT = "INSERT INTO savepoint_tail (names, names_sum, sum, body) VALUES (?, ?, ?, ?)";
// A damaged number may be larger than a driver can give, and would keep all the others from being read.
const ALL = `SELECT names, body, CASE WHEN names_sum BETWEEN 0 AND 4294967295 THEN names_sum ELSE -1 END AS names_sum,
  CASE WHEN sum BETWEEN 0 AND 4294967295 THEN sum ELSE -1 END AS sum FROM savepoint_tail ORDER BY id`;
const END = "SELECT first + count AS end FROM savepoint_run WHERE tape = ? ORDER BY first DESC LIMIT 1";

export class WriteBuffer {
  readonly #connection: Connection;
  readonly #sealer: Packer;
  readonly #probe: (point: WritePoint) => void;
  readonly #report: (message: string, error: unknown) => void;
  readonly #enabled: boolean;
  /** Records as they are, in the tail or in the table. */
  readonly #values = new Recent<string>(MAX_KNOWN, MAX_KNOWN_LENGTH, (value) => value.length);
  /** The number behind the last item of a tape. */
  readonly #ends = new Recent<number>(MAX_KNOWN);
  /** Changes when another connection has written. */
  #version = -1;
  /** What waits, with its keys and tapes; `undefined` where others may have left something as well. */
  #waiting: WaitingCommits | undefined;

  /** @param enabled may commits wait in the tail? Not where others may write through this very connection */
  constructor(connection: Connection, sealer: Packer, options: SqliteOptions, enabled: boolean) {
    this.#connection = connection;
    this.#sealer = sealer;
    this.#enabled = enabled;
    this.#probe = testHooksOf(options).probe ?? (() => {});
    const report = createFailureReporter(options);
    // Told when the transaction is over, whatever becomes of it.
    this.#report = (message, error) => queueMicrotask(() => report(message, error));
  }

  /** Is it worth folding, for its own sake? */
  get isFull(): boolean {
    const { count = 0, bytes = 0 } = this.#waiting ?? {};
    return count >= MAX_ROWS || bytes >= MAX_BYTES;
  }

  /** Is there nothing to fold, from whomever? */
  get isEmpty(): boolean {
    return this.#connection.row("SELECT 1 FROM savepoint_tail LIMIT 1") === undefined;
  }

  /** To be called at the beginning of a transaction: what was known is forgotten if somebody else has written. */
  detectForeignWrites(): void {
    const version = this.#connection.row<{ data_version: number }>("PRAGMA data_version")?.data_version ?? -1;
    if (version !== this.#version) this.forget();
    this.#version = version;
  }

  /** Nothing is known any more: a transaction has failed, or was another's. */
  forget(): void {
    this.#forgetValues();
    this.#waiting = undefined;
  }

  #forgetValues(): void {
    this.#values.clear();
    this.#ends.clear();
  }

  /** May something under one of these names be waiting? Then that must be folded before it is looked at or written. */
  mayContain(names: Footprint): boolean {
    this.detectForeignWrites();
    // If somebody else begins to put something there now, that will be noticed.
    if (!this.#waiting && this.isEmpty) this.#waiting = new WaitingCommits();
    return this.#waiting?.has(names) ?? true;
  }

  /**
   * Writes a commit to the tail if that can be done; throws if its checks fail.
   *
   * @returns `undefined` where it has to be written to the tables
   */
  tryAppend(commit: Commit): CommitResult | undefined {
    if (!this.#enabled || !this.#waiting || !this.#mayWait(commit)) return undefined;
    const { checks = [], items = [] } = commit;
    const failed = checks.filter(({ key, ...check }) => "value" in check && this.#values.get(key) !== check.value);
    if (failed.length > 0) throw commitConflict(failed);
    this.#probe("checked");
    const row = encodeCommit(commit);
    this.#connection.run(INSERT, row.names, row.names_sum, row.sum, row.body);
    this.#probe("tail");
    this.#waiting.add(toBufferedCommit(commit), row.body.length);
    this.remember(commit);
    return { firsts: items.map((run) => ("first" in run ? run.first : 0)) };
  }

  /** Notes what was written to the tables, or to the tail. */
  remember({ puts = [], items = [], deletes = [] }: Commit): void {
    if (!this.#enabled) return;
    if (deletes.length > 0) this.#forgetValues();
    for (const { key, value, ifAbsent, refs = "" } of puts) {
      // Rows, which have refs, are put once: they would only crowd out what saves come back to.
      if (ifAbsent || refs !== "") this.#values.delete(key);
      else this.#values.set(key, value);
    }
    for (const run of items) {
      if (!("first" in run)) {
        this.#values.delete(run.counter);
        this.#ends.delete(run.tape);
      } else if (run.items.length > 0) this.#noteEnd(run.tape, run.first + run.items.length);
    }
  }

  /** A run may fill a gap: then the tape ends where it did. */
  #noteEnd(tape: string, end: number): void {
    const known = this.#ends.get(tape) ?? this.#connection.row<{ end: number }>(END, tape)?.end ?? 0;
    this.#ends.set(tape, Math.max(known, end));
  }

  /** Can its checks be told from memory, and is it nothing but records and items? */
  #mayWait({ checks = [], puts = [], items = [], deletes = [], blobs = [], notBefore }: Commit): boolean {
    if (deletes.length > 0 || blobs.length > 0 || notBefore !== undefined || checks.length === 0) return false;
    if (puts.some((put) => put.ifAbsent) || !checks.every(({ key }) => this.#values.has(key))) return false;
    // Two runs of one tape might overlap each other.
    if (items.length > 1 && new Set(items.map(({ tape }) => tape)).size < items.length) return false;
    let length = 0;
    for (const run of items) {
      if (!("first" in run) || run.first < (this.#ends.get(run.tape) ?? Number.POSITIVE_INFINITY)) return false;
      for (const { json } of run.items) length += json.length;
    }
    return length <= MAX_LENGTH;
  }

  /** What waits, in order; each commit as it is, or what is left of it. */
  readEntries(): BufferEntry[] {
    return this.#connection.rows<BufferRow>(ALL).map((row) => ({ row, commit: decodeCommit(row) }));
  }

  /** Writes what waits to the tables. To be called inside a transaction; {@link forget} is called when that is rolled back. */
  flush(): void {
    this.detectForeignWrites();
    const rows: readonly BufferEntry[] = this.#waiting?.rows ?? this.readEntries();
    this.#waiting = new WaitingCommits();
    if (rows.length === 0) return;
    this.#connection.run("SAVEPOINT fold");
    try {
      this.#write(rows);
    } catch (error) {
      // A page that could not be read temporarily is not damage: the first time, the transaction is repeated.
      if (!isCorrupt(error) || !this.#connection.isRetry) throw error;
      this.#connection.run("ROLLBACK TO fold");
      this.#writeSingly();
    }
    this.#connection.run("RELEASE fold");
    this.#probe("fold:written");
    this.#connection.run("DELETE FROM savepoint_tail");
  }

  /** Where a table is damaged, what does not touch the damage is written, and the rest is kept aside. */
  #writeSingly(): void {
    for (const row of this.readEntries()) {
      this.#connection.run("SAVEPOINT fold_row");
      try {
        this.#write([row]);
      } catch (error) {
        if (!isCorrupt(error)) throw error;
        this.#connection.run("ROLLBACK TO fold_row");
        this.#setAside(
          row.row as BufferRow,
          "the tables that a commit belongs to are damaged; a session has lost a save",
          error,
        );
      }
      this.#connection.run("RELEASE fold_row");
    }
  }

  #write(rows: readonly BufferEntry[]): void {
    const puts = new Map<string, Put | undefined>();
    const runs = new Map<string, BufferedItems[]>();
    for (const { row, commit } of rows) {
      if (!commit && row)
        this.#setAside(row, "a commit is damaged beyond knowing what it was; a session has lost a save");
      else if (commit && "lost" in commit) for (const key of commit.lost) puts.set(key, undefined);
      else if (commit) {
        for (const put of commit.puts) puts.set(put.key, put);
        for (const run of commit.items) runs.set(run.tape, join(runs.get(run.tape) ?? [], run));
      }
    }
    const lost = [...puts.keys()].filter((key) => !puts.get(key));
    // What is lost is no longer what this process remembers.
    if (lost.length > 0) this.#forgetValues();
    const kept = [...puts.values()].filter((put) => put !== undefined);
    putRecords(this.#connection, kept.sort(byKey), false);
    markRecordsLost(this.#connection, lost);
    for (const ofTape of runs.values()) for (const run of ofTape) this.#writeRun(run);
  }

  #writeRun(run: BufferedItems): void {
    const { tape, first, items } = run;
    if (appendItems(this.#connection, tape, first, items)) this.#sealer.noteItems(run);
    else {
      // Against all expectation; failing now would keep everything from being read for ever.
      this.#forgetValues();
      this.#report(`items ${first} and on of tape ${tape} were there already`, undefined);
    }
  }

  /** A row that cannot be written is kept, for somebody who can tell what it was. */
  #setAside(row: BufferRow, message: string, cause?: unknown): void {
    this.#forgetValues();
    this.#connection.run(
      "INSERT INTO savepoint_lost (names, names_sum, sum, body) VALUES (?, ?, ?, ?)",
      row.names,
      row.names_sum,
      row.sum,
      row.body,
    );
    this.#report(message, new Error("The row is in the table savepoint_lost now.", { cause }));
  }
}

/** Records by their keys, and items by their tapes. */
export interface Footprint {
  readonly keys?: readonly string[];
  readonly tapes?: readonly string[];
}

/** The names of all that a commit looks at or writes; `undefined` where nobody knows them all. */
export function footprintOf({ checks = [], puts = [], items = [], deletes = [] }: Commit): Footprint | undefined {
  if (deletes.some((target) => typeof target !== "string")) return undefined;
  return {
    keys: [
      ...checks.map(({ key }) => key),
      ...puts.map(({ key }) => key),
      ...(deletes as readonly string[]),
      ...items.flatMap((run) => ("counter" in run ? [run.counter] : [])),
    ],
    tapes: items.map(({ tape }) => tape),
  };
}

/** A commit that waits, and the row it was read from, if it was. */
export interface BufferEntry {
  readonly row?: BufferRow;
  readonly commit: ReturnType<typeof decodeCommit>;
}

/** Commits that this process has put into the tail, where nobody else has put any. */
class WaitingCommits {
  readonly rows: BufferEntry[] = [];
  readonly #keys = new Set<string>();
  readonly #tapes = new Set<string>();
  bytes = 0;

  get count(): number {
    return this.rows.length;
  }

  add(commit: BufferedCommit, bytes: number): void {
    this.rows.push({ commit });
    this.bytes += bytes;
    for (const { key } of commit.puts) this.#keys.add(key);
    for (const { tape } of commit.items) this.#tapes.add(tape);
  }

  has({ keys = [], tapes = [] }: Footprint): boolean {
    return keys.some((key) => this.#keys.has(key)) || tapes.some((tape) => this.#tapes.has(tape));
  }
}

/** Adds a run to those of its tape: items that follow one another become one. */
function join(runs: BufferedItems[], run: BufferedItems): BufferedItems[] {
  const last = runs.at(-1);
  if (last && last.first + last.items.length === run.first) {
    (last.items as BufferedItems["items"][number][]).push(...run.items);
  } else runs.push({ ...run, items: [...run.items] });
  return runs;
}

function byKey(a: Put, b: Put): number {
  return a.key < b.key ? -1 : 1;
}
