/**
 * One connection with its prepared statements, and transactions that wait for other processes without blocking this one.
 */
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { SavepointError } from "../../errors.js";
import { storeClosed } from "../shared/index.js";
import type { SqliteDatabase, SqliteStatement, SqliteValue } from "./driver.js";
import { isBusy, isCorrupt, isReadError, isPoisoning, sqliteFailure, diskReadFailure } from "./errors.js";
import type { FileGuard } from "./file-guard.js";
import { busyTimeoutOf, type StoreProblem } from "../contract/index.js";
import type { SqliteOptions } from "./options.js";
import type { WalSync } from "./wal-sync.js";

/** How long SQLite itself may wait for a lock, blocking the event loop, before waiting goes on in timers. */
const BLOCKING_WAIT = 5;

/** The most pages that a database may have to be searched for read errors, which takes about a second. */
const MAX_SEARCHED = 131_072;

/** Free pages that are returned to the file system in one transaction. */
const VACUUM_AT_ONCE = 256;

/** Free pages that are given back when a store is closed. More of them are a matter for `compact()`. */
const VACUUM_AT_CLOSE = 256;

/** What SQLite says of its WAL. */
export interface WalPages {
  readonly log: number;
  readonly checkpointed: number;
}

export class Connection {
  readonly url: string;
  /** The database's file, if it has one. */
  readonly path: string | undefined;
  // Kept referenced for as long as its statements: one driver crashes if the database is collected before them.
  readonly #database: SqliteDatabase;
  readonly #statements = new Map<string, SqliteStatement>();
  /** Called after every transaction that was committed. Must not throw: the transaction can no longer be undone. */
  onWrite: () => void = () => {};
  /** Called after every transaction that was not, before anybody else gets a turn. */
  onRollback: () => void = () => {};
  /** Is it ours alone? */
  readonly owned: boolean;
  readonly #busyTimeout: number;
  #poison: unknown;
  #closed = false;
  #inSnapshot = false;
  #inTransaction = false;
  #isSecondTry = false;
  #isDamaged = false;
  /** Is a transaction waiting for another process to finish its own? */
  #waitsForLock = false;
  #turn: Promise<unknown> = Promise.resolve();
  readonly #sync: WalSync | undefined;
  readonly #guard: FileGuard | undefined;
  readonly #release: (() => Promise<void>) | undefined;
  /** Pages of the WAL, if there may be little room behind them. */
  #pages: number | undefined;

  /**
   * @param parts.sync makes commits durable, where SQLite itself does not wait for the disk
   * @param parts.guard notices that the database's files are gone
   * @param parts.path the database's file
   * @param parts.release makes the database release its files once it is closed
   */
  constructor(
    database: SqliteDatabase,
    url: string,
    owned: boolean,
    options: SqliteOptions,
    parts: {
      readonly sync?: WalSync | undefined;
      readonly guard?: FileGuard | undefined;
      readonly path?: string | undefined;
      readonly release?: (() => Promise<void>) | undefined;
    } = {},
  ) {
    this.url = url;
    this.path = parts.path;
    this.#release = parts.release;
    this.#sync = parts.sync;
    this.#guard = parts.guard;
    this.#database = database;
    this.owned = owned;
    this.#busyTimeout = busyTimeoutOf(options);
    database.exec(`PRAGMA busy_timeout = ${BLOCKING_WAIT}`);
  }

  rows<Row>(sql: string, ...values: SqliteValue[]): Row[] {
    return this.#readTwice(() => this.#statement(sql).all(...values) as Row[]);
  }

  row<Row>(sql: string, ...values: SqliteValue[]): Row | undefined {
    return this.#readTwice(() => (this.#statement(sql).get(...values) as Row | undefined | null) ?? undefined);
  }

  run(sql: string, ...values: SqliteValue[]): number {
    return Number(this.#statement(sql).run(...values).changes);
  }

  /**
   * Runs `work`, which must not wait for anything, in one write transaction. When it resolves, the work is committed:
   * visible to all, and surviving the process. When it rejects, nothing of it was written. Transactions of this
   * connection take turns. `work` is run again from the beginning where a page could not be read: see {@link isRetry}.
   */
  transaction<T>(what: string, work: () => T): Promise<T> {
    return this.exclusive(() => this.#transact(what, work));
  }

  /** Runs work while no transaction of this connection runs; those that are asked for meanwhile wait for it. */
  exclusive<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.#turn.then(work);
    this.#turn = mine.catch(() => {});
    return mine;
  }

  /**
   * Resolves when everything that was committed before is as durable as was asked for, in the files at the store's path.
   *
   * @param alone is it one commit that waits, and no others with it?
   */
  async makeDurable(alone: boolean): Promise<void> {
    if (this.#sync) {
      if (this.#poison !== undefined) throw this.#poisoned();
      try {
        await this.#sync.flush(alone);
      } catch (error) {
        // A disk that failed once may have dropped the pages: a second sync would succeed without storing them.
        this.#poison = error;
        throw this.#notDurable(error);
      }
    }
    this.#verifyFiles("Writing to");
  }

  /** What happened to the database's files since they were opened. */
  fileProblems(): StoreProblem[] {
    const problem = this.#guard?.findProblem();
    return problem ? [problem] : [];
  }

  /** Has the next transaction make room in the WAL, which has so many pages. */
  requestWalSpace(pages: number): void {
    if (this.#sync) this.#pages = pages;
  }

  /** How many pages there are in the WAL, and how many of them have been copied into the database. */
  walPages(): WalPages {
    return this.row<WalPages>("PRAGMA wal_checkpoint(NOOP)") ?? { log: 0, checkpointed: 0 };
  }

  /** Has SQLite copy the WAL into the database by itself, when it has this many pages; 0 for never. */
  setAutoCheckpoint(pages: number): void {
    this.#database.exec(`PRAGMA wal_autocheckpoint = ${pages}`);
  }

  /**
   * Is this the second attempt of a transaction, after apparent damage? SQLite reports a page that the disk failed to read
   * (EIO) like a damaged one, so damage is assumed only after a second read.
   */
  get isRetry(): boolean {
    return this.#isSecondTry;
  }

  /** The error to show for what was thrown while doing `what`; one of our own stays as it is. */
  failure(error: unknown, what: string): SavepointError {
    if (isCorrupt(error) && this.#hasReadErrors()) return diskReadFailure(this.url, what, error);
    return sqliteFailure(error, this, what);
  }

  /** Several reads that see one moment; inside another snapshot, the same one. */
  snapshot<T>(read: () => T): T {
    return this.#inSnapshot ? read() : this.#readTwice(() => this.#readAtOnce(read));
  }

  #readAtOnce<T>(read: () => T): T {
    this.run("BEGIN");
    this.#inSnapshot = true;
    try {
      const found = read();
      this.run("COMMIT");
      return found;
    } catch (error) {
      this.#rollBack();
      throw error;
    } finally {
      this.#inSnapshot = false;
    }
  }

  /** Like {@link transaction}, but gives up at once, with `false`, where nothing can be written now. */
  async tryTransaction(work: () => void): Promise<boolean> {
    if (this.#waitsForLock) return false;
    return this.exclusive(async () => {
      if (this.#closed || this.#poison !== undefined) return false;
      try {
        this.#verifyFiles("Writing to");
        return this.#attempt(work) !== undefined;
      } catch {
        // Whoever writes next meets it too, and hears of it.
        return false;
      }
    });
  }

  /** Returns free pages to the file system, a few at a time so that other work does not wait long. */
  async freePages(): Promise<void> {
    const free = (): number =>
      this.row<{ pages: number }>("SELECT freelist_count AS pages FROM pragma_freelist_count()")?.pages ?? 0;
    for (let before = free(); before > 0;) {
      await this.transaction("Compacting", () => this.rows(`PRAGMA incremental_vacuum(${VACUUM_AT_ONCE})`));
      await nextTurn();
      const left = free();
      if (left >= before) break;
      before = left;
    }
    this.#verifyFiles("Compacting");
  }

  /** Copies the WAL into the database and empties it, synchronously. */
  truncateWal(): void {
    this.rows("PRAGMA wal_checkpoint(TRUNCATE)");
  }

  /** Bytes of the pages that are in use. */
  pageBytes(): number {
    const row = this.row<{ bytes: number }>(
      `SELECT (page_count - freelist_count) * page_size AS bytes
       FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()`,
    );
    return row?.bytes ?? 0;
  }

  /** Waits for the transaction that has begun. Whatever comes later fails with `CLOSED`. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#turn;
    await this.#sync?.close();
    this.#statements.clear();
    if (!this.owned) return;
    // What the tail has taken is free by now, and in the way of a small file.
    this.#tidy(`PRAGMA incremental_vacuum(${VACUUM_AT_CLOSE})`);
    // SQLite does this by itself when the last connection closes, unless a driver keeps statements alive.
    this.#tidy("PRAGMA wal_checkpoint(TRUNCATE)");
    this.#database.close();
    await this.#release?.();
  }

  /** Nothing is lost where it fails: what was committed stays where it is, and the next one to open the file finds it. */
  #tidy(sql: string): void {
    if (this.#poison !== undefined || this.#guard?.isBroken) return;
    try {
      this.#database.exec(sql);
    } catch {
      // Others are at work on the file, or the disk is full.
    }
  }

  async #transact<T>(what: string, work: () => T): Promise<T> {
    const deadline = Date.now() + this.#busyTimeout;
    for (let wait = 1; ; wait = Math.min(wait * 2, 50)) {
      if (this.#poison !== undefined) throw this.#poisoned();
      this.#verifyFiles(what);
      try {
        // From beginning to end without a turn of the event loop: a read would find itself inside the transaction.
        const done = this.#attempt(work);
        if (done) return done.result;
      } catch (error) {
        throw this.failure(error, what);
      }
      if (Date.now() >= deadline) throw this.#lockedOut(what);
      // Jitter, so that processes that collided once do not collide again.
      this.#waitsForLock = true;
      await sleep(wait * (0.5 + Math.random()));
      this.#waitsForLock = false;
    }
  }

  /** Once a file is gone, nothing is written or acknowledged any more. Closing removes the WAL itself. */
  #verifyFiles(what: string): void {
    if (this.#closed) return;
    try {
      this.#guard?.verify(this.url);
    } catch (error) {
      throw this.failure(error, what);
    }
  }

  /** Reads, and repeats the read after apparent damage. Inside a transaction or a snapshot, all of that is repeated. */
  #readTwice<T>(read: () => T): T {
    try {
      return read();
    } catch (error) {
      if (!isCorrupt(error) || this.#inTransaction || this.#inSnapshot) throw error;
      return read();
    }
  }

  /** Are there pages that the disk fails to read? Once damage is confirmed, this is not checked again. */
  #hasReadErrors(): boolean {
    if (this.#isDamaged || this.#closed) return false;
    try {
      const pages = this.row<{ page_count: number }>("PRAGMA page_count")?.page_count ?? 0;
      const found = pages <= MAX_SEARCHED ? this.rows<{ quick_check: string }>("PRAGMA quick_check(10)") : [];
      if (found.some((row) => isReadError(row.quick_check))) return true;
    } catch {
      // The check itself cannot read the database, so the first error of SQLite is taken as it is.
    }
    this.#isDamaged = true;
    return false;
  }

  /** Runs work in one transaction. `undefined` where another process has the lock. */
  #attempt<T>(work: () => T): { readonly result: T } | undefined {
    try {
      return this.#begin() ? { result: this.#finish(work) } : undefined;
    } catch (error) {
      if (!isCorrupt(error)) throw error;
    }
    this.#isSecondTry = true;
    try {
      return this.#begin() ? { result: this.#finish(work) } : undefined;
    } finally {
      this.#isSecondTry = false;
    }
  }

  /** Is the write lock ours? */
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
      if (this.#pages !== undefined) this.#makeRoom(this.#pages);
      result = work();
      this.run("COMMIT");
    } catch (error) {
      if (isPoisoning(error) && (this.#isSecondTry || !isCorrupt(error))) this.#poison = error;
      this.#rollBack();
      this.onRollback();
      throw error;
    } finally {
      this.#inTransaction = false;
    }
    this.onWrite();
    return result;
  }

  #makeRoom(pages: number): void {
    this.#pages = undefined;
    try {
      this.#sync?.preallocate(pages);
    } catch {
      // The disk may be full. If there is no room for the transaction itself, that is told.
    }
  }

  #rollBack(): void {
    try {
      this.run("ROLLBACK");
    } catch {
      // SQLite rolls back by itself after errors such as a full disk; then there is nothing left to roll back.
    }
  }

  #lockedOut(what: string): SavepointError {
    return new SavepointError(
      "BUSY",
      `${what} ${this.url} failed: another process has held its lock for ${this.#busyTimeout} ms. Try again; nothing was written.`,
    );
  }

  #notDurable(error: unknown): SavepointError {
    return new SavepointError(
      "IO_FAILED",
      `Writing to ${this.url} failed: ${reasonOf(error)}. It is unknown what reached the disk: check it, then open the store again.`,
      { cause: error },
    );
  }

  #poisoned(): SavepointError {
    return new SavepointError(
      "IO_FAILED",
      `${this.url} cannot be written any more: an earlier write failed: ${reasonOf(this.#poison)}. It is unknown what reached the disk. Open the store again.`,
      { cause: this.#poison },
    );
  }

  #statement(sql: string): SqliteStatement {
    if (this.#closed) throw storeClosed(this.url);
    let statement = this.#statements.get(sql);
    if (!statement) this.#statements.set(sql, (statement = this.#database.prepare(sql)));
    return statement;
  }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
