/**
 * `sqlite:`, the default store: one file, many processes.
 *
 * Commits go through a queue and are written in groups, in short transactions in WAL mode: writers of other processes wait for one
 * transaction at most.
 */
import { statSync } from "node:fs";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { isSavepointError } from "../../errors.js";
import {
  busyTimeoutOf,
  type Commit,
  type CommitResult,
  createFailureReporter,
  type Frame,
  type Freed,
  type ScrubResult,
  type Store,
  type StoreProblem,
} from "../contract/index.js";
import { GroupCommit, type RetainOptions, storeClosed } from "../shared/index.js";
import type { Span } from "../../util/index.js";
import { checkDatabase, dropMisplacedRecords, hasMisplacedRecords } from "./check.js";
import type { SqliteConnection } from "./connection.js";
import type { SqliteOptions } from "./options.js";
import { SqlitePacker } from "./packer.js";
import { freePages, readWalPages, rewriteDatabase, truncateWal, usedBytes } from "./pages.js";
import { SqliteReader } from "./reader.js";
import { SqliteTextIndex } from "./text-index.js";
import type { WalCheckpointer } from "./wal-checkpointer.js";
import { WriteBuffer } from "./write-buffer.js";
import { SqliteWriter } from "./writer.js";

/** Blobs that are deleted in one transaction: each may have many pages. */
const BLOBS_PER_TRANSACTION = 16;

/** How long to wait before the WAL is emptied again, in milliseconds. */
const SCRUB_INTERVAL = 50;

/** The file of a store that we opened. */
export interface StoreFile {
  readonly path: string;
  /** Missing if the store is opened read-only. */
  readonly checkpointer?: WalCheckpointer;
}

export class SqliteStore extends SqliteReader implements Store {
  readonly capabilities: Store["capabilities"];
  readonly texts: SqliteTextIndex;
  readonly #connection: SqliteConnection;
  readonly #file: StoreFile | undefined;
  readonly #clock: () => number;
  readonly #busyTimeout: number;
  readonly #packer: SqlitePacker;
  readonly #buffer: WriteBuffer;
  readonly #writer: SqliteWriter;
  readonly #commits: GroupCommit;
  readonly #report: (message: string, error: unknown) => void;
  #flushing: Promise<void> | undefined;

  /** @param file the file, unless the database is in memory or belongs to the caller */
  constructor(connection: SqliteConnection, options: SqliteOptions, file?: StoreFile) {
    const packer = new SqlitePacker(connection, options);
    // Writes of the caller through its own handle could not be detected.
    const buffer = new WriteBuffer(connection, packer, options, connection.owned);
    super(connection, buffer);
    this.capabilities = { durable: file !== undefined, shared: file !== undefined };
    this.#connection = connection;
    this.#file = file;
    this.#clock = options.now ?? Date.now;
    this.#busyTimeout = busyTimeoutOf(options);
    this.#report = createFailureReporter(options);
    this.#packer = packer;
    this.#buffer = buffer;
    this.texts = new SqliteTextIndex(connection, buffer, this, () => this.assertOpen());
    if (file?.checkpointer) connection.onWrite = () => file.checkpointer?.noteWrite();
    connection.onRollback = () => buffer.forget();
    const writer = new SqliteWriter(connection, packer, buffer, options);
    this.#writer = writer;
    const flushIfFull = (): void => {
      if (buffer.isFull) this.#flushing ??= this.#flushInBackground();
    };
    this.#commits = new GroupCommit(
      async (commits) => {
        const outcomes = await writer.apply(commits);
        flushIfFull();
        return outcomes;
      },
      (commit) => {
        const result = writer.applyNow(commit);
        flushIfFull();
        return result;
      },
    );
  }

  commit(commit: Commit): Promise<CommitResult> {
    return this.isOpen ? this.#commits.commit(commit) : Promise.reject(storeClosed(this.url));
  }

  commitAtExit(commit: Commit): void {
    if (this.isOpen) this.#writer.applyAtExit(commit);
  }

  async now(): Promise<number> {
    this.assertOpen();
    return this.#clock();
  }

  async retain(tape: string, live: readonly Span[], options: RetainOptions): Promise<Freed> {
    this.assertOpen();
    await this.#flush();
    return this.#packer.retain(tape, live, options);
  }

  async heal(tape: string, items: ReadonlyMap<number, Frame>): Promise<number> {
    this.assertOpen();
    await this.#flush();
    return this.#connection.transaction("Healing items in", () => this.#packer.heal(tape, items));
  }

  async check(): Promise<StoreProblem[]> {
    return this.readUnbuffered(() => [...this.#connection.fileProblems(), ...checkDatabase(this.#connection)]);
  }

  async dropBlobs(hashes: readonly string[], { unusedSince }: { unusedSince: number }): Promise<Freed> {
    this.assertOpen();
    const freed = { items: 0, bytes: 0 };
    for (let from = 0; from < hashes.length; from += BLOBS_PER_TRANSACTION) {
      if (from > 0) await nextTurn();
      const some = hashes.slice(from, from + BLOBS_PER_TRANSACTION);
      const dropped = await this.#connection.transaction("Freeing blobs in", () => {
        // Counted from zero again if the transaction is repeated.
        const counted = { items: 0, bytes: 0 };
        for (const hash of some) {
          const row = this.#connection.row<{ bytes: number }>(
            "DELETE FROM savepoint_blob WHERE hash = ? AND used_at < ? RETURNING length(body) AS bytes",
            hash,
            unusedSince,
          );
          if (!row) continue;
          counted.items++;
          counted.bytes += row.bytes;
        }
        return counted;
      });
      freed.items += dropped.items;
      freed.bytes += dropped.bytes;
    }
    return freed;
  }

  async compact(): Promise<void> {
    this.assertOpen();
    try {
      await this.#flush();
      if (await hasMisplacedRecords(this.#connection)) {
        await this.#connection.transaction("Compacting", () => dropMisplacedRecords(this.#connection));
      }
      await this.#packer.packAll();
      await freePages(this.#connection);
      if (this.#file) await this.#file.checkpointer?.truncate();
      else truncateWal(this.#connection);
    } catch (error) {
      throw this.#connection.failure(error, "Compacting");
    }
  }

  /**
   * Rewrites the database, because deleted rows stay in free pages and in the gaps of used ones, then empties the WAL, which has
   * old versions of pages. Both wait for other processes until the busy timeout.
   */
  async scrub(): Promise<ScrubResult> {
    this.assertOpen();
    const deadline = Date.now() + this.#busyTimeout;
    try {
      await this.#flush();
      await this.texts.purge();
      this.#connection.run("DELETE FROM savepoint_lost");
      while (!(await this.#rewrite())) {
        if (Date.now() >= deadline) return { pending: this.#pending("the database", "writes to it") };
        await sleep(SCRUB_INTERVAL);
      }
      while (!(await this.#emptyWal())) {
        if (Date.now() >= deadline)
          return { pending: this.#pending("the write-ahead log", "reads an older version of the database") };
        await sleep(SCRUB_INTERVAL);
      }
      return {};
    } catch (error) {
      throw this.#connection.failure(error, "Erasing data from");
    }
  }

  #pending(place: string, doing: string): string {
    return `${place} of ${this.url} still contains erased data, because another process ${doing}. When that process has ended, erase again.`;
  }

  async #rewrite(): Promise<boolean> {
    return this.#file?.checkpointer ? this.#file.checkpointer.rewrite() : rewriteDatabase(this.#connection);
  }

  /** Returns `false` if a reader prevents it. */
  async #emptyWal(): Promise<boolean> {
    if (this.#file?.checkpointer) await this.#file.checkpointer.truncate();
    else truncateWal(this.#connection);
    return readWalPages(this.#connection).log <= 0;
  }

  async bytes(): Promise<number> {
    return this.readUnbuffered(() => {
      if (!this.#file) return usedBytes(this.#connection);
      const { path } = this.#file;
      return [path, `${path}-wal`].reduce(
        (sum, name) => sum + (statSync(name, { throwIfNoEntry: false })?.size ?? 0),
        0,
      );
    });
  }

  protected async release(): Promise<void> {
    await this.#commits.idle();
    await this.#flushing;
    // If this fails, the next process that reads or writes what the buffer contains flushes it.
    await this.#flush().catch(() => {});
    await this.#packer.idle();
    await this.#file?.checkpointer?.close();
    await this.#connection.close();
  }

  /** Writes the buffered commits to the tables. Fails if nothing can be written. */
  async #flush(): Promise<void> {
    if (!this.#buffer.isEmpty) await this.#connection.transaction("Writing to", () => this.#buffer.flush());
  }

  /** Flushes a full buffer. A failure loses nothing: the next read tries again. */
  async #flushInBackground(): Promise<void> {
    try {
      // In a turn of its own: the callers whose commits were resolved in this one continue first.
      await nextTurn();
      await this.#flush();
    } catch (error) {
      if (!isSavepointError(error, "BUSY") && !isSavepointError(error, "CLOSED")) {
        this.#report("buffered commits could not be written to the tables, and stay in the buffer", error);
      }
    } finally {
      this.#flushing = undefined;
    }
  }
}
