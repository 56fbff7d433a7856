/**
 * One connection with its prepared statements, and transactions that wait for other processes without blocking this one.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { SavepointError } from "../../errors.js";
import { storeClosed } from "../closed.js";
import type { SqliteDatabase, SqliteStatement, SqliteValue } from "./driver.js";
import { isBusy, poisons, sqliteFailure } from "./failure.js";
import { busyTimeoutOf } from "../options.js";
import type { SqliteOptions } from "./options.js";
import type { WalSync } from "./wal-sync.js";

/** How long SQLite itself may wait for a lock, blocking the event loop, before waiting goes on in timers. */
const BLOCKING_WAIT = 5;

/** Free pages that are given back when a store is closed. More of them are a matter for `compact()`. */
const VACUUM_AT_CLOSE = 256;

/** What SQLite says of its WAL. */
export interface WalPages {
  readonly log: number;
  readonly checkpointed: number;
}

export class Connection {
  readonly url: string;
  // Kept referenced for as long as its statements: one driver crashes if the database is collected before them.
  readonly #database: SqliteDatabase;
  readonly #statements = new Map<string, SqliteStatement>();
  /** Called after every transaction that was committed. */
  onWrite: () => void = () => {};
  /** Called after every transaction that was not, before anybody else gets a turn. */
  onRollback: () => void = () => {};
  /** Is it ours alone? */
  readonly owned: boolean;
  readonly #busyTimeout: number;
  #poison: unknown;
  #closed = false;
  #inSnapshot = false;
  /** Is a transaction waiting for another process to finish its own? */
  #waitsForLock = false;
  #turn: Promise<unknown> = Promise.resolve();
  readonly #sync: WalSync | undefined;
  /** Pages of the WAL, if there may be little room behind them. */
  #pages: number | undefined;

  /** @param sync makes commits durable, where SQLite itself does not wait for the disk */
  constructor(database: SqliteDatabase, url: string, owned: boolean, options: SqliteOptions, sync?: WalSync) {
    this.url = url;
    this.#sync = sync;
    this.#database = database;
    this.owned = owned;
    this.#busyTimeout = busyTimeoutOf(options);
    database.exec(`PRAGMA busy_timeout = ${BLOCKING_WAIT}`);
  }

  rows<Row>(sql: string, ...values: SqliteValue[]): Row[] {
    return this.#statement(sql).all(...values) as Row[];
  }

  row<Row>(sql: string, ...values: SqliteValue[]): Row | undefined {
    return (this.#statement(sql).get(...values) as Row | undefined | null) ?? undefined;
  }

  run(sql: string, ...values: SqliteValue[]): number {
    return Number(this.#statement(sql).run(...values).changes);
  }

  /**
   * Runs `work`, which must not wait for anything, in one write transaction. When it resolves, the work is committed:
   * visible to all, and surviving the process. When it rejects, nothing of it was written. Transactions of this
   * connection take turns.
   */
  transaction<T>(what: string, work: () => T): Promise<T> {
    return this.pause(() => this.#transact(what, work));
  }

  /** Runs work while no transaction of this connection runs; those that are asked for meanwhile wait for it. */
  pause<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.#turn.then(work);
    this.#turn = mine.catch(() => {});
    return mine;
  }

  /**
   * Resolves when everything that was committed before is as durable as was asked for.
   *
   * @param alone is it one commit that waits, and no others with it?
   */
  async durable(alone: boolean): Promise<void> {
    if (!this.#sync) return;
    if (this.#poison !== undefined) throw this.#poisoned();
    try {
      await this.#sync.flush(alone);
    } catch (error) {
      // A disk that failed once may have thrown the pages away: a second sync would succeed and mean nothing.
      this.#poison = error;
      throw this.#poisoned();
    }
  }

  /** Has the next transaction make room in the WAL, which has so many pages. */
  wantRoom(pages: number): void {
    if (this.#sync) this.#pages = pages;
  }

  /** How many pages there are in the WAL, and how many of them have been copied into the database. */
  walPages(): WalPages {
    return this.row<WalPages>("PRAGMA wal_checkpoint(NOOP)") ?? { log: 0, checkpointed: 0 };
  }

  /** Has SQLite copy the WAL into the database by itself, when it has this many pages; 0 for never. */
  checkpointEvery(pages: number): void {
    this.#database.exec(`PRAGMA wal_autocheckpoint = ${pages}`);
  }

  /** Several reads that see one moment; inside another snapshot, the same one. */
  snapshot<T>(read: () => T): T {
    if (this.#inSnapshot) return read();
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
    return this.pause(async () => {
      if (this.#closed || this.#poison !== undefined) return false;
      try {
        if (!this.#begin()) return false;
        this.#finish(work);
        return true;
      } catch {
        // Whoever writes next meets it too, and hears of it.
        return false;
      }
    });
  }

  /** Returns free pages to the file system, a few at a time so that nobody waits long, then empties the WAL. */
  async giveSpaceBack(): Promise<void> {
    const free = (): number =>
      this.row<{ pages: number }>("SELECT freelist_count AS pages FROM pragma_freelist_count()")?.pages ?? 0;
    for (let before = free(); before > 0;) {
      await this.transaction("Compacting", () => this.rows("PRAGMA incremental_vacuum(1000)"));
      const left = free();
      if (left >= before) break;
      before = left;
    }
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
  }

  /** Nothing is lost where it fails: what was committed stays where it is, and the next one to open the file finds it. */
  #tidy(sql: string): void {
    if (this.#poison !== undefined) return;
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
      try {
        // From beginning to end without a turn of the event loop: a read would find itself inside the transaction.
        if (this.#begin()) return this.#finish(work);
      } catch (error) {
        throw sqliteFailure(error, this.url, what);
      }
      if (Date.now() >= deadline) throw this.#lockedOut(what);
      // Jitter, so that processes that collided once do not collide again.
      this.#waitsForLock = true;
      await sleep(wait * (0.5 + Math.random()));
      this.#waitsForLock = false;
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
    try {
      if (this.#pages !== undefined) this.#makeRoom(this.#pages);
      const result = work();
      this.run("COMMIT");
      this.onWrite();
      return result;
    } catch (error) {
      if (poisons(error)) this.#poison = error;
      this.#rollBack();
      this.onRollback();
      throw error;
    }
  }

  #makeRoom(pages: number): void {
    this.#pages = undefined;
    try {
      this.#sync?.makeRoom(pages);
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

  #poisoned(): SavepointError {
    return new SavepointError(
      "IO_FAILED",
      `${this.url} cannot be written any more: an earlier write failed and nobody knows what reached the disk. Open the store again.`,
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
