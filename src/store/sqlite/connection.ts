/**
 * One SQLite connection with its prepared statements, and transactions that wait for other processes without blocking
 * the event loop.
 *
 * Two failures need care. SQLite reports a page that the disk failed to read (EIO) like a damaged page, so apparent
 * damage is believed only after a second attempt. And after a failed write it is unknown what reached the disk, so the
 * connection is poisoned: it still reads, but never writes again.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { SavepointError } from "../../errors.js";
import { Mutex } from "../../util/index.js";
import { busyTimeoutOf, type StoreProblem } from "../contract/index.js";
import { storeClosed, storeReadOnly } from "../shared/index.js";
import type { SqliteDatabase, SqliteStatement, SqliteValue } from "./driver.js";
import {
  diskReadFailure,
  isBusy,
  isCorrupt,
  isPoisoning,
  lockTimeout,
  poisonedConnection,
  sqliteFailure,
  syncFailure,
} from "./errors.js";
import type { FileGuard } from "./file-guard.js";
import type { SqliteOptions } from "./options.js";
import type { ReadOnlyFiles } from "./read-only-files.js";
import { hasReadErrors } from "./read-errors.js";
import type { WalSync } from "./wal-sync.js";

/** How long SQLite itself may wait for a lock, which blocks the event loop, before we wait with timers, in milliseconds. */
const BLOCKING_WAIT = 5;

/** Free pages that are returned to the file system when a store is closed. `compact()` returns more. */
const PAGES_FREED_AT_CLOSE = 256;

/** The parts of a connection to a file. */
export interface ConnectionParts {
  /** Makes commits durable, if SQLite itself does not wait for the disk. */
  readonly sync?: WalSync | undefined;
  /** Detects that the database's files were removed or replaced. */
  readonly guard?: FileGuard | undefined;
  readonly path?: string | undefined;
  /** Makes the database release its files after it was closed. */
  readonly release?: (() => Promise<void>) | undefined;
  /** The files of a database that is opened read-only. */
  readonly files?: ReadOnlyFiles | undefined;
}

export class SqliteConnection {
  readonly url: string;
  /** The database's file, if it has one. */
  readonly path: string | undefined;
  /** Whether Savepoint opened the database. If not, the caller opened it and may use it as well. */
  readonly owned: boolean;
  /** Whether nothing may be written. */
  readonly isReadOnly: boolean;
  /** Called after every committed transaction. Must not throw, because the transaction can no longer be undone. */
  onWrite: () => void = () => {};
  /** Called after every transaction that was rolled back, before any other work. */
  onRollback: () => void = () => {};
  // Referenced as long as its statements, because one driver crashes if the database is collected before them.
  #database: SqliteDatabase;
  /** `false` after the files of a read-only database were closed and could not be opened again. */
  #isOpen = true;
  readonly #statements = new Map<string, SqliteStatement>();
  readonly #busyTimeout: number;
  readonly #parts: ConnectionParts;
  readonly #transactions = new Mutex();
  #closed = false;
  /** The error of the write that poisoned the connection. */
  #poison: unknown;
  #inSnapshot = false;
  #inTransaction = false;
  #isRetry = false;
  #isDamageConfirmed = false;
  /** Whether a transaction waits for a transaction of another process. */
  #waitsForLock = false;

  constructor(
    database: SqliteDatabase,
    url: string,
    owned: boolean,
    options: SqliteOptions,
    parts: ConnectionParts = {},
  ) {
    this.url = url;
    this.path = parts.path;
    this.owned = owned;
    this.isReadOnly = options.readOnly ?? false;
    this.#database = database;
    this.#busyTimeout = busyTimeoutOf(options);
    this.#parts = parts;
    database.exec(`PRAGMA busy_timeout = ${BLOCKING_WAIT}`);
  }

  /** All rows of a query. */
  rows<Row>(sql: string, ...values: SqliteValue[]): Row[] {
    return this.#readTwice(() => this.#statement(sql).all(...values) as Row[]);
  }

  /** The first row of a query. */
  row<Row>(sql: string, ...values: SqliteValue[]): Row | undefined {
    return this.#readTwice(() => (this.#statement(sql).get(...values) as Row | undefined | null) ?? undefined);
  }

  /** Runs a statement and returns the number of changed rows. */
  run(sql: string, ...values: SqliteValue[]): number {
    return Number(this.#statement(sql).run(...values).changes);
  }

  /**
   * Runs `work`, which must be synchronous, in one write transaction. When the call resolves, the work is committed: it
   * is visible to all and survives the process. When the call rejects, nothing was written. Transactions of this
   * connection run one at a time. `work` is repeated from the beginning after apparent damage: see {@link isRetry}.
   *
   * @param what the beginning of an error message, such as "Writing to"
   */
  async transaction<T>(what: string, work: () => T): Promise<T> {
    if (this.isReadOnly) throw storeReadOnly(this.url);
    return this.exclusive(() => this.#transact(what, work));
  }

  /**
   * Like {@link transaction} followed by {@link makeDurable} for one commit, but synchronous. Returns `undefined`, and runs nothing,
   * if the transaction would have to wait: for work of this connection, for another process, or for a slow disk.
   */
  transactNow<T>(what: string, work: () => T): T | undefined {
    const { sync } = this.#parts;
    if (this.isReadOnly || !this.#transactions.isIdle || this.#poison !== undefined || sync?.isFast === false) {
      return undefined;
    }
    this.verifyFiles(what);
    let done: { readonly result: T } | undefined;
    try {
      done = this.#attempt(work);
    } catch (error) {
      throw this.failure(error, what);
    }
    if (!done) return undefined;
    try {
      sync?.flushNow();
    } catch (error) {
      throw this.#poisonAfterSync(error);
    }
    this.verifyFiles(what);
    return done.result;
  }

  /** Runs work in one transaction, if that is possible immediately. Does not sync: the system writes what a process leaves behind. */
  transactAtExit(what: string, work: () => void): void {
    if (this.#closed || this.isReadOnly || !this.#transactions.isIdle || this.#poison !== undefined) return;
    this.verifyFiles(what);
    this.#attempt(work);
  }

  /** Like {@link transaction}, but returns `false` immediately if nothing can be written now. */
  async tryTransaction(work: () => void): Promise<boolean> {
    if (this.#waitsForLock || this.isReadOnly) return false;
    return this.exclusive(async () => {
      if (this.#closed || this.#poison !== undefined) return false;
      try {
        this.verifyFiles("Writing to");
        return this.#attempt(work) !== undefined;
      } catch {
        // The next write meets the same error and reports it.
        return false;
      }
    });
  }

  /** Runs `work` while no transaction of this connection runs. Transactions that start meanwhile wait for it. */
  exclusive<T>(work: () => Promise<T>): Promise<T> {
    return this.#transactions.run(work);
  }

  /** Runs several reads in one snapshot. A nested call uses the outer snapshot. */
  snapshot<T>(read: () => T): T {
    return this.#inSnapshot ? read() : this.#readTwice(() => this.#readInSnapshot(read));
  }

  /** Runs a synchronous read on the files that are at the path now: see {@link ReadOnlyFiles.readCurrent}. */
  readCurrent<T>(read: () => T): T {
    const { files } = this.#parts;
    return files ? files.readCurrent(read, () => this.#reopen(files)) : read();
  }

  /**
   * Resolves when all earlier commits are as durable as the options demand, in the files at the store's path.
   *
   * @param alone whether only one commit waits for it
   */
  async makeDurable(alone: boolean): Promise<void> {
    if (this.#parts.sync) {
      if (this.#poison !== undefined) throw poisonedConnection(this.url, this.#poison);
      try {
        await this.#parts.sync.flush(alone);
      } catch (error) {
        throw this.#poisonAfterSync(error);
      }
    }
    this.verifyFiles("Writing to");
  }

  /** A disk that failed once may have dropped the pages, so a second sync would succeed without storing them. */
  #poisonAfterSync(error: unknown): SavepointError {
    this.#poison = error;
    return syncFailure(this.url, error);
  }

  /**
   * Throws `IO_FAILED` if a file of the database was removed or replaced, because nothing may be written or
   * acknowledged after that.
   */
  verifyFiles(what: string): void {
    // Closing removes the WAL.
    if (this.#closed) return;
    try {
      this.#parts.guard?.verify(this.url);
    } catch (error) {
      throw this.failure(error, what);
    }
  }

  /** Problems of the database's files since they were opened. */
  fileProblems(): StoreProblem[] {
    const problem = this.#parts.guard?.findProblem();
    return problem ? [problem] : [];
  }

  /** Makes the next transaction preallocate space in the WAL, which has this many pages. */
  requestWalSpace(pages: number): void {
    this.#parts.sync?.requestSpace(pages);
  }

  /**
   * Whether this is the second attempt of a transaction, after apparent damage. If the second attempt fails too, the
   * damage is real.
   */
  get isRetry(): boolean {
    return this.#isRetry;
  }

  /** Converts an error that was thrown while doing `what`; a SavepointError stays as it is. */
  failure(error: unknown, what: string): SavepointError {
    // Once damage is confirmed, the database is not searched again.
    if (isCorrupt(error) && !this.#isDamageConfirmed && !this.#closed) {
      if (hasReadErrors(this)) return diskReadFailure(this.url, what, error);
      this.#isDamageConfirmed = true;
    }
    return sqliteFailure(error, this, what);
  }

  /** Waits for transactions that have begun. All later calls fail with `CLOSED`. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#transactions.idle();
    await this.#parts.sync?.close();
    this.#statements.clear();
    if (!this.owned) return;
    if (this.isReadOnly) return this.#closeDatabase();
    this.#tidy(`PRAGMA incremental_vacuum(${PAGES_FREED_AT_CLOSE})`);
    // SQLite does this automatically when the last connection closes, unless a driver keeps statements alive.
    this.#tidy("PRAGMA wal_checkpoint(TRUNCATE)");
    await this.#closeDatabase();
  }

  async #closeDatabase(): Promise<void> {
    if (this.#isOpen) this.#database.close();
    await this.#parts.release?.();
    this.#parts.files?.close();
  }

  /** Opens the files of a read-only database as they are now, and forgets everything that was read before. */
  #reopen(files: ReadOnlyFiles): void {
    if (this.#closed) throw storeClosed(this.url);
    this.#statements.clear();
    if (this.#isOpen) this.#database.close();
    this.#isOpen = false;
    this.#database = files.open();
    this.#isOpen = true;
    this.onRollback();
  }

  /** A failure loses nothing: committed data stays in the WAL, where the next process that opens the file finds it. */
  #tidy(sql: string): void {
    if (this.#poison !== undefined || this.#parts.guard?.isBroken) return;
    try {
      this.#database.exec(sql);
    } catch {
      // Another process uses the file, or the disk is full.
    }
  }

  /** Attempts a transaction until it gets the write lock or the busy timeout ends. */
  async #transact<T>(what: string, work: () => T): Promise<T> {
    const deadline = Date.now() + this.#busyTimeout;
    for (let wait = 1; ; wait = Math.min(wait * 2, 50)) {
      if (this.#poison !== undefined) throw poisonedConnection(this.url, this.#poison);
      this.verifyFiles(what);
      try {
        // Without a turn of the event loop in between, because a read would then run inside the transaction.
        const done = this.#attempt(work);
        if (done) return done.result;
      } catch (error) {
        throw this.failure(error, what);
      }
      if (Date.now() >= deadline) throw lockTimeout(this.url, what, this.#busyTimeout);
      // Random, so that processes that collided once do not collide again.
      this.#waitsForLock = true;
      await sleep(wait * (0.5 + Math.random()));
      this.#waitsForLock = false;
    }
  }

  /** Runs work in one transaction, and again after apparent damage. `undefined` if another process has the lock. */
  #attempt<T>(work: () => T): { readonly result: T } | undefined {
    try {
      return this.#begin() ? { result: this.#finish(work) } : undefined;
    } catch (error) {
      if (!isCorrupt(error)) throw error;
    }
    this.#isRetry = true;
    try {
      return this.#begin() ? { result: this.#finish(work) } : undefined;
    } finally {
      this.#isRetry = false;
    }
  }

  /** Begins a write transaction. Returns `false` if another process has the lock. */
  #begin(): boolean {
    try {
      this.run("BEGIN IMMEDIATE");
      return true;
    } catch (error) {
      if (isBusy(error)) return false;
      throw error;
    }
  }

  #finish<T>(work: () => T): T {
    let result: T;
    this.#inTransaction = true;
    try {
      this.#parts.sync?.preallocate();
      result = work();
      this.run("COMMIT");
    } catch (error) {
      if (isPoisoning(error) && (this.#isRetry || !isCorrupt(error))) this.#poison = error;
      this.#rollBack();
      this.onRollback();
      throw error;
    } finally {
      this.#inTransaction = false;
    }
    this.onWrite();
    return result;
  }

  #rollBack(): void {
    try {
      this.run("ROLLBACK");
    } catch {
      // SQLite rolls back automatically after errors such as a full disk; then there is nothing left to roll back.
    }
  }

  #readInSnapshot<T>(read: () => T): T {
    this.run("BEGIN");
    this.#inSnapshot = true;
    try {
      const result = read();
      this.run("COMMIT");
      return result;
    } catch (error) {
      this.#rollBack();
      throw error;
    } finally {
      this.#inSnapshot = false;
    }
  }

  /** Repeats a read after apparent damage. A transaction or a snapshot is repeated as a unit instead. */
  #readTwice<T>(read: () => T): T {
    try {
      return read();
    } catch (error) {
      if (!isCorrupt(error) || this.#inTransaction || this.#inSnapshot) throw error;
      return read();
    }
  }

  #statement(sql: string): SqliteStatement {
    if (this.#closed) throw storeClosed(this.url);
    let statement = this.#statements.get(sql);
    if (!statement) this.#statements.set(sql, (statement = this.#database.prepare(sql)));
    return statement;
  }
}
