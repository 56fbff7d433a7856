/**
 * The write buffer: commits that are stored as one row each in one table, and flushed to the other tables many at a time.
 *
 * A save replaces the records of its branch and adds a record and a few items. Written to the tables, this changes five pages, and
 * the next save changes four of them again. Written to the buffer, the save is one row at the end of one table.
 *
 * A commit can be buffered if its checks can be evaluated from memory, which requires that this process wrote the checked records
 * last and that no other process has written since. Only whether a record exists is looked up in the table. Any other commit is written directly to the tables. The buffer is flushed before
 * any of its records or items are read or written in the tables. An agent saves its session often and rarely reads it, so its
 * session is written to the tables about once in a hundred saves. If the buffer cannot be flushed now, because another process
 * writes or the disk is full, a read adds the contents of the buffer to the rows of the tables (buffer-overlay.ts).
 *
 * The buffer is written inside the transactions of the writer, so buffered commits are as durable as any others. Commits that
 * a process leaves in it are flushed by the next process that reads or writes what they contain.
 *
 * Callers flush it: store.ts when it is full and before maintenance, reader.ts and text-tables.ts before they read, writer.ts
 * before it writes the same records.
 */
import { SavepointError } from "../../errors.js";
import { LruMap } from "../../util/index.js";
import { type Check, type Commit, type CommitResult, createFailureReporter, type Put } from "../contract/index.js";
import { commitConflict, testHooksOf } from "../shared/index.js";
import {
  type BufferedCommit,
  type BufferedItems,
  type BufferEntry,
  type BufferRow,
  decodeCommit,
  encodeCommit,
} from "./buffer-codec.js";
import { BufferOverlay } from "./buffer-overlay.js";
import { ChangedKeys } from "./changed-keys.js";
import type { SqliteConnection } from "./connection.js";
import { isCorrupt } from "./errors.js";
import type { SqliteOptions, WritePoint } from "./options.js";
import type { SqlitePacker } from "./packer.js";
import { appendItems, markRecordsLost, putRecords } from "./rows.js";

/** The buffer is full with this many commits or bytes. The limits are low, because the next read may wait for the flush. */
const MAX_COMMITS = 128;
const MAX_BYTES = 262_144;
/** The most characters of keys and items in a buffered commit. For a longer commit, writing it twice would cost more than it saves. */
const MAX_COMMIT_LENGTH = 16_384;
/** The number of tapes whose ends are remembered. */
const MAX_TAPES = 20_000;
/** The most characters of records that are remembered. */
const MAX_REMEMBERED_LENGTH = 4_194_304;
/** The least number of characters that a remembered record counts as. */
const MIN_RECORD_LENGTH = 200;

const INSERT = "INSERT INTO savepoint_buffer (keys, keys_sum, sum, body) VALUES (?, ?, ?, ?)";
const INSERT_LOST = "INSERT INTO savepoint_lost (keys, keys_sum, sum, body) VALUES (?, ?, ?, ?)";
// A damaged checksum may exceed the numbers that a driver can return. It is replaced by -1, because otherwise the whole query fails.
const ALL = `SELECT keys, body, CASE WHEN keys_sum BETWEEN 0 AND 4294967295 THEN keys_sum ELSE -1 END AS keys_sum,
  CASE WHEN sum BETWEEN 0 AND 4294967295 THEN sum ELSE -1 END AS sum FROM savepoint_buffer ORDER BY id`;
const EXISTS = "SELECT 1 FROM savepoint_record WHERE key = ?";
const TAPE_END = "SELECT first + count AS end FROM savepoint_chunk WHERE tape = ? ORDER BY first DESC LIMIT 1";

export class WriteBuffer {
  /** The keys of written records; `undefined` if they are unknown, because the caller can write through the same connection. */
  readonly changedKeys: ChangedKeys | undefined;
  readonly #connection: SqliteConnection;
  readonly #packer: SqlitePacker;
  readonly #probe: (point: WritePoint) => void;
  readonly #report: (message: string, error: unknown) => void;
  readonly #enabled: boolean;
  /** The current values of recently written records, in the buffer or in the table. */
  readonly #values = new LruMap<string, string>(MAX_REMEMBERED_LENGTH);
  /** The ends of recently written tapes: the number after the last item. */
  readonly #ends = new LruMap<string, number>(MAX_TAPES);
  /** SQLite's data version, which changes when another connection has written. */
  #version = -1;
  /** The contents of the buffer; `undefined` if other processes may have added to it. */
  #pending: PendingCommits | undefined;
  /** The overlay of a read-only store; `null` if the buffer may have changed since. */
  #overlay: BufferOverlay | undefined | null = null;

  /** @param enabled whether commits may be buffered; `false` if the caller can write through the same connection */
  constructor(connection: SqliteConnection, packer: SqlitePacker, options: SqliteOptions, enabled: boolean) {
    this.#connection = connection;
    this.#packer = packer;
    this.#enabled = enabled;
    if (enabled) this.changedKeys = new ChangedKeys();
    this.#probe = testHooksOf(options).probe ?? (() => {});
    const report = createFailureReporter(options);
    // Failures are reported after the transaction has ended, whether it was committed or rolled back.
    this.#report = (message, error) => queueMicrotask(() => report(message, error));
  }

  /** Whether the buffer is so full that it should be flushed in the background. */
  get isFull(): boolean {
    const { count = 0, bytes = 0 } = this.#pending ?? {};
    return count >= MAX_COMMITS || bytes >= MAX_BYTES;
  }

  /** Whether the buffer has no commits, neither of this process nor of others. Reads the table. */
  get isEmpty(): boolean {
    return this.#connection.row("SELECT 1 FROM savepoint_buffer LIMIT 1") === undefined;
  }

  /** Calls {@link forget} if another connection has written. To be called at the beginning of a transaction. */
  detectForeignWrites(): void {
    const version = this.#connection.row<{ data_version: number }>("PRAGMA data_version")?.data_version ?? -1;
    if (version !== this.#version) this.forget();
    this.#version = version;
  }

  /** Clears everything that is remembered. To be called if a transaction was rolled back or another process has written. */
  forget(): void {
    this.#forgetValues();
    this.#pending = undefined;
    this.#overlay = null;
  }

  #forgetValues(): void {
    this.#values.clear();
    this.#ends.clear();
  }

  /**
   * Returns whether the buffer may contain records or items of this footprint. If so, the buffer must be flushed before they are
   * read or written in the tables.
   */
  mayContain(footprint: Footprint): boolean {
    this.detectForeignWrites();
    // An empty buffer needs no second check, because the data version changes when another process buffers a commit.
    if (!this.#pending && this.isEmpty) this.#pending = new PendingCommits();
    return this.#pending?.has(footprint) ?? true;
  }

  /**
   * Adds a commit to the buffer, if the commit can be buffered. Throws `CONFLICT` if its checks fail.
   *
   * @returns `undefined` if the commit was not buffered and must be written to the tables
   */
  tryAppend(commit: Commit): CommitResult | undefined {
    const buffered = this.#admit(commit, (key) => this.#exists(key));
    if (!buffered || !this.#pending) return undefined;
    const row = encodeCommit(buffered);
    this.#connection.run(INSERT, row.keys, row.keys_sum, row.sum, row.body);
    this.#probe("buffer");
    this.#pending.add(buffered, row.body.length);
    this.remember(commit);
    return { firsts: buffered.items.map(({ first }) => first) };
  }

  /**
   * Adds a commit to others that {@link writeTogether} writes to the tables. Throws `CONFLICT` if its checks fail.
   *
   * @returns `undefined` if the commit was not added and must be written alone, after the others
   */
  tryCollect(commit: Commit, collected: BufferedCommit[]): CommitResult | undefined {
    // Buffered commits are older.
    if (this.#pending && this.#pending.count > 0) this.flush();
    const admitted = this.#admit(commit, undefined);
    if (!admitted) return undefined;
    collected.push(admitted);
    this.remember(commit);
    return { firsts: admitted.items.map(({ first }) => first) };
  }

  /**
   * Writes commits to the tables with as few statements as possible: of several versions of a record only the last one, and
   * consecutive items of a tape together.
   */
  writeTogether(commits: readonly BufferedCommit[]): void {
    const { puts, tapes } = mergeCommits(commits.map((commit) => ({ commit })));
    putRecords(this.#connection, ([...puts.values()] as Put[]).sort(byKey), false);
    for (const batch of [...tapes.values()].flat()) {
      // The numbers were checked before, so this fails only if the tape differs from what this process has written.
      if (!appendItems(this.#connection, batch.tape, batch.first, batch.items))
        throw commitConflict([{ key: batch.tape }]);
      this.#packer.noteItems(batch);
    }
  }

  /**
   * Evaluates the checks of a commit with remembered values. Returns `undefined` if they are not enough for the commit.
   *
   * @param exists looks up whether there is a record that is not remembered
   */
  #admit(commit: Commit, exists: ((key: string) => boolean) | undefined): BufferedCommit | undefined {
    if (!this.#enabled || !this.#pending || !this.#canBuffer(commit)) return undefined;
    const failed: Check[] = [];
    for (const check of commit.checks ?? []) {
      const value = this.#values.peek(check.key);
      if (value !== undefined) {
        if ("value" in check && check.value !== value) failed.push(check);
      } else if (!exists || ("value" in check && check.value !== undefined)) return undefined;
      else if (exists(check.key) !== "exists" in check) failed.push(check);
    }
    if (failed.length > 0) throw commitConflict(failed);
    this.#probe("checked");
    return { puts: commit.puts ?? [], items: (commit.items ?? []) as readonly BufferedItems[] };
  }

  /** Whether there is a record with this key, in the buffer or in the table. Needs no flush, because the keys in the buffer are known. */
  #exists(key: string): boolean {
    return this.#pending?.has({ keys: [key] }) === true || this.#connection.row(EXISTS, key) !== undefined;
  }

  /** Remembers the records and tape ends of a commit that was written to the tables or to the buffer. */
  remember(commit: Commit): void {
    if (!this.#enabled) return;
    this.changedKeys?.add(commit);
    const { puts = [], items = [], deletes = [] } = commit;
    if (deletes.length > 0) this.#forgetValues();
    for (const { key, value, ifAbsent, refs = "" } of puts) {
      // Records with refs are written once, so they would only displace the records that later saves check.
      if (ifAbsent || refs !== "") this.#values.delete(key);
      else this.#values.set(key, value, Math.max(MIN_RECORD_LENGTH, key.length + value.length));
    }
    for (const batch of items) {
      if (!("first" in batch)) {
        this.#values.delete(batch.counter);
        this.#ends.delete(batch.tape);
      } else if (batch.items.length > 0) this.#rememberEnd(batch.tape, batch.first + batch.items.length);
    }
  }

  /** Remembers the end of a tape after a batch. A batch that fills a gap does not change the end. */
  #rememberEnd(tape: string, end: number): void {
    const before = this.#ends.peek(tape) ?? this.#connection.row<{ end: number }>(TAPE_END, tape)?.end ?? 0;
    this.#ends.set(tape, Math.max(before, end));
  }

  /** Returns whether a small commit only checks and puts records, and appends items to tapes whose ends are known. */
  #canBuffer({ checks = [], puts = [], items = [], deletes = [], blobs = [], notBefore }: Commit): boolean {
    if (deletes.length > 0 || blobs.length > 0 || notBefore !== undefined || checks.length === 0) return false;
    // Two batches of one tape might overlap.
    if (items.length > 1 && new Set(items.map(({ tape }) => tape)).size < items.length) return false;
    let length = 0;
    for (const { key, ifAbsent } of puts) {
      if (ifAbsent) return false;
      length += key.length;
    }
    for (const batch of items) {
      if (!("first" in batch) || batch.first < (this.#ends.peek(batch.tape) ?? Number.POSITIVE_INFINITY)) return false;
      for (const { json } of batch.items) length += json.length;
    }
    return length <= MAX_COMMIT_LENGTH;
  }

  /** Reads the buffered commits from the table, oldest first. */
  readEntries(): BufferEntry[] {
    return this.#connection.rows<BufferRow>(ALL).map((row) => ({ row, commit: decodeCommit(row) }));
  }

  /** The contents of the buffer for a read in a snapshot; `undefined` if it is empty. Decoded again only after a change. */
  readOverlay(): BufferOverlay | undefined {
    this.detectForeignWrites();
    if (this.#overlay === null) {
      const entries = this.readEntries();
      this.#overlay = entries.length === 0 ? undefined : new BufferOverlay(entries);
    }
    return this.#overlay;
  }

  /** Writes the buffered commits to the tables. To be called inside a transaction; a rollback must call {@link forget}. */
  flush(): void {
    this.detectForeignWrites();
    const entries: readonly BufferEntry[] = this.#pending?.entries ?? this.readEntries();
    this.#pending = new PendingCommits();
    if (entries.length === 0) return;
    this.#connection.run("SAVEPOINT flush");
    try {
      this.#write(entries);
    } catch (error) {
      // A read error may be temporary. Only if the repeated transaction fails too, the tables count as damaged.
      if (!isCorrupt(error) || !this.#connection.isRetry) throw error;
      this.#connection.run("ROLLBACK TO flush");
      this.#writeSingly();
    }
    this.#connection.run("RELEASE flush");
    this.#probe("flush:written");
    this.#connection.run("DELETE FROM savepoint_buffer");
  }

  /** Writes the buffered commits one by one. Commits that fail because a table is damaged are moved to `savepoint_lost`. */
  #writeSingly(): void {
    for (const entry of this.readEntries()) {
      this.#connection.run("SAVEPOINT flush_one");
      try {
        this.#write([entry]);
      } catch (error) {
        if (!isCorrupt(error)) throw error;
        this.#connection.run("ROLLBACK TO flush_one");
        this.#moveToLost(
          entry.row as BufferRow,
          "a commit could not be written because its tables are damaged; a session has lost a save",
          error,
        );
      }
      this.#connection.run("RELEASE flush_one");
    }
  }

  #write(entries: readonly BufferEntry[]): void {
    for (const { row, commit } of entries) {
      if (!commit && row) {
        this.#moveToLost(row, "a commit is so damaged that its contents are unknown; a session has lost a save");
      }
    }
    const { puts, tapes } = mergeCommits(entries);
    const lost = [...puts.keys()].filter((key) => !puts.get(key));
    // The remembered values of lost records are no longer correct.
    if (lost.length > 0) {
      this.changedKeys?.forget();
      this.#forgetValues();
    }
    const intact = [...puts.values()].filter((put) => put !== undefined);
    putRecords(this.#connection, intact.sort(byKey), false);
    markRecordsLost(this.#connection, lost);
    for (const batches of tapes.values()) for (const batch of batches) this.#writeItems(batch);
  }

  #writeItems(batch: BufferedItems): void {
    const { tape, first, items } = batch;
    if (appendItems(this.#connection, tape, first, items)) this.#packer.noteItems(batch);
    else {
      // Savepoint writes no such commit. It is reported and not thrown: every read flushes first, so the store would become unreadable.
      this.#forgetValues();
      const error = new SavepointError(
        "DAMAGED",
        "The commit was written without them. Run sp.verify({ deep: true }).",
      );
      this.#report(`items of tape ${tape} from number ${first} on existed already`, error);
    }
  }

  /** Copies a row that cannot be written to the tables to `savepoint_lost`, for analysis, and reports the loss. */
  #moveToLost(row: BufferRow, message: string, cause?: unknown): void {
    this.#forgetValues();
    this.#connection.run(INSERT_LOST, row.keys, row.keys_sum, row.sum, row.body);
    const lost = new SavepointError("DAMAGED", "The commit was moved to the table savepoint_lost.", { cause });
    this.#report(message, lost);
  }
}

/** The records (by key) and items (by tape) that an operation reads or writes. */
export interface Footprint {
  readonly keys?: readonly string[];
  readonly tapes?: readonly string[];
}

/** The footprint of a commit; `undefined` if the commit deletes a range, because the keys in a range are not known. */
export function footprintOf({ checks = [], puts = [], items = [], deletes = [] }: Commit): Footprint | undefined {
  if (deletes.some((target) => typeof target !== "string")) return undefined;
  return {
    keys: [
      ...checks.map(({ key }) => key),
      ...puts.map(({ key }) => key),
      ...(deletes as readonly string[]),
      ...items.flatMap((batch) => ("counter" in batch ? [batch.counter] : [])),
    ],
    tapes: items.map(({ tape }) => tape),
  };
}

/** The contents of a buffer that only this process has written to. */
class PendingCommits {
  readonly entries: BufferEntry[] = [];
  readonly #keys = new Set<string>();
  readonly #tapes = new Set<string>();
  bytes = 0;

  get count(): number {
    return this.entries.length;
  }

  add(commit: BufferedCommit, bytes: number): void {
    this.entries.push({ commit });
    this.bytes += bytes;
    for (const { key } of commit.puts) this.#keys.add(key);
    for (const { tape } of commit.items) this.#tapes.add(tape);
  }

  has({ keys = [], tapes = [] }: Footprint): boolean {
    return keys.some((key) => this.#keys.has(key)) || tapes.some((tape) => this.#tapes.has(tape));
  }
}

/** The records and items of commits after all of them; `undefined` for a record that is lost. */
function mergeCommits(entries: readonly BufferEntry[]): {
  readonly puts: ReadonlyMap<string, Put | undefined>;
  readonly tapes: ReadonlyMap<string, readonly BufferedItems[]>;
} {
  const puts = new Map<string, Put | undefined>();
  const tapes = new Map<string, BufferedItems[]>();
  for (const { commit } of entries) {
    if (commit && "lost" in commit) for (const key of commit.lost) puts.set(key, undefined);
    else if (commit) {
      for (const put of commit.puts) puts.set(put.key, put);
      for (const batch of commit.items) tapes.set(batch.tape, join(tapes.get(batch.tape) ?? [], batch));
    }
  }
  return { puts, tapes };
}

/** Adds a batch to the batches of its tape. If the batch continues the last one, its items are added to the last one. */
function join(batches: BufferedItems[], batch: BufferedItems): BufferedItems[] {
  const last = batches.at(-1);
  if (last && last.first + last.items.length === batch.first) {
    (last.items as BufferedItems["items"][number][]).push(...batch.items);
  } else batches.push({ ...batch, items: [...batch.items] });
  return batches;
}

function byKey(a: Put, b: Put): number {
  return a.key < b.key ? -1 : 1;
}
