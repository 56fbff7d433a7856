/**
 * `sqlite:`, the default store: one file, many processes.
 *
 * Commits go through a queue and are written in groups, in short transactions in WAL mode: writers of other processes wait
 * for one transaction at most. Reads run on the same connection between transactions. They fold the tail first, if that can
 * be done at once, so that it is done once for all who read.
 */
import { mkdirSync, realpathSync, type Stats, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { isSavepointError, SavepointError } from "../../errors.js";
import { GroupCommit, isChecksum, storeClosed, storeNotFound, testHooksOf } from "../shared/index.js";
import { isMissingFileError } from "../../util/index.js";
import {
  createFailureReporter,
  busyTimeoutOf,
  type Commit,
  type CommitResult,
  type Frame,
  type Freed,
  type ItemRefs,
  type ItemSpan,
  type KeyRange,
  type Store,
  type StoredRanges,
  type StoredRecord,
  type StoreProblem,
  type Unreadable,
  type UnreadableRecord,
} from "../contract/index.js";
import { readBlob, readSpan, type ChunkHead, unpackRefs } from "../chunks/index.js";
import { Connection } from "./connection.js";
import { closeReleasesFiles, driverModule, openDatabase, type SqliteDatabase } from "./driver.js";
import { checkDatabase, dropMisplacedRecords, hasMisplacedRecords } from "./check.js";
import { FileGuard } from "./file-guard.js";
import { healItems } from "./heal.js";
import { isBusy, isCorrupt, sqliteFailure } from "./errors.js";
import type { SqliteOptions, SqliteTarget } from "./options.js";
import type { RecordRow } from "./rows.js";
import { ChunkCache, spanArguments, selectChunks } from "./chunk-reader.js";
import { migrate } from "./schema.js";
import { trackOpenFile } from "./release-files.js";
import { Packer } from "./packer.js";
import { type Footprint, WriteBuffer } from "./write-buffer.js";
import { SqliteTextIndex } from "./text-index.js";
import { BufferOverlay } from "./buffer-overlay.js";
import { WalCheckpointer } from "./wal-checkpointer.js";
import { WalSync } from "./wal-sync.js";
import { Writer } from "./writer.js";

/** Opens a SQLite store, creating the file and its folder where there are none. */
export async function openSqliteStore(target: SqliteTarget, options: SqliteOptions = {}): Promise<Store> {
  const given = typeof target !== "string";
  const path = typeof target === "string" && target !== ":memory:" ? resolve(target) : undefined;
  const url = given ? "sqlite: (your handle)" : `sqlite:${target}`;
  const open = (): Promise<Store> => (given ? openHandle(target, url, options) : openPath(path, url, options));
  try {
    return await open().catch((error: unknown) => {
      // Apparent damage may be a page that the disk failed to read.
      if (isCorrupt(error)) return open();
      throw error;
    });
  } catch (error) {
    throw sqliteFailure(error, { url, path }, "Opening");
  }
}

/** Opens a file, or a database in memory where there is no path. */
async function openPath(path: string | undefined, url: string, options: SqliteOptions): Promise<Store> {
  const there = path === undefined ? undefined : statIfThere(path);
  if (there?.isDirectory()) throw notADatabase(url);
  const size = there?.size ?? 0;
  if (path !== undefined && options.create === false && size === 0) throw storeNotFound(url);
  if (path !== undefined) mkdirSync(dirname(path), { recursive: true });
  // SQLite would treat such a short file as a new database.
  if (size > 0 && size < SMALLEST) throw notADatabase(url);
  const database = await openDatabase(path ?? ":memory:");
  const release = path === undefined || (await closeReleasesFiles()) ? undefined : trackOpenFile(realpathSync(path));
  try {
    await prepareDatabase(database, url, false, options);
    return path === undefined
      ? new SqliteStore(new Connection(database, url, true, options), options)
      : openFile(database, await driverModule(), url, path, options, release);
  } catch (error) {
    await closeQuietly(database, release);
    throw error;
  }
}

/** A database of the caller's. Only its file is guarded: the WAL is the caller's to manage. */
async function openHandle(database: SqliteDatabase, url: string, options: SqliteOptions): Promise<Store> {
  await prepareDatabase(database, url, true, options);
  const path = fileOf(database) || undefined;
  const guard = path === undefined ? undefined : new FileGuard([path], options.onDamage);
  return new SqliteStore(new Connection(database, url, false, options, { guard, path }), options);
}

/** Closes after a failure, which must not be hidden by an error of closing. */
async function closeQuietly(database: SqliteDatabase, release: (() => Promise<void>) | undefined): Promise<void> {
  try {
    database.close();
    await release?.();
  } catch {
    // Nothing that was written through it has been acknowledged.
  }
}

/**
 * A file of our own: syncing the disk and copying the WAL are done outside of SQLite.
 *
 * @param given the path that the caller gave, which may contain symbolic links
 */
function openFile(
  database: SqliteDatabase,
  module: string,
  url: string,
  given: string,
  options: SqliteOptions,
  release: (() => Promise<void>) | undefined,
): Store {
  const syncs = options.durability !== "process";
  database.exec("PRAGMA synchronous = NORMAL");
  // Makes SQLite open the WAL and hold on to it. Before that, another process that closes last would delete the file, and
  // what we sync would be nobody's.
  database.prepare("SELECT count(*) FROM savepoint_meta").get();
  // SQLite follows symbolic links: its WAL is beside the file itself.
  const path = fileOf(database);
  const guard = new FileGuard([given, `${path}-wal`, `${path}-shm`], options.onDamage);
  const sync = syncs ? new WalSync(path, testHooksOf(options).syncFile) : undefined;
  const connection = new Connection(database, url, true, options, { sync, guard, path, release });
  return new SqliteStore(connection, options, {
    path,
    keeper: new WalCheckpointer(connection, path, module, createFailureReporter(options)),
  });
}

/** The file of a database, without symbolic links; empty where it has none. */
function fileOf(database: SqliteDatabase): string {
  const row = database.prepare("SELECT file FROM pragma_database_list WHERE name = 'main'").get() as { file: string };
  return row.file ?? "";
}

/** No database is shorter than its first page. */
const SMALLEST = 512;

const RECORD_BYTES = `SELECT coalesce(sum(
    length(CAST(key AS BLOB)) + length(CAST(refs AS BLOB)) + length(CAST(value AS BLOB))), 0) AS bytes
  FROM savepoint_record WHERE key >= ? AND key < ?`;
// The length of a body is in the head of its row: none of the pages that the body itself is on are read.
const RUN_BYTES = `SELECT coalesce(sum(length(head) + length(body)), 0) AS bytes
  FROM savepoint_run WHERE tape >= ? AND tape < ?`;

/** Blobs that are deleted in one transaction: each may have many pages. */
const BLOBS_AT_ONCE = 16;

/** The file of a store that has one of its own. */
interface StoreFile {
  readonly path: string;
  readonly keeper: WalCheckpointer;
}

async function prepareDatabase(
  database: SqliteDatabase,
  url: string,
  given: boolean,
  options: SqliteOptions,
): Promise<void> {
  const timeout = busyTimeoutOf(options);
  // Opening may have to wait for another process that opens and migrates at the same moment.
  database.exec(`PRAGMA busy_timeout = ${timeout}`);
  migrate(database, url, { allowOtherTables: given, create: options.create !== false || url === "sqlite::memory:" });
  // Only now that it is known to be a store: this writes to the file. SQLite does not wait for locks here, so we do.
  const deadline = Date.now() + timeout;
  for (let changed = false; !changed;) {
    try {
      database.exec("PRAGMA journal_mode = WAL");
      changed = true;
    } catch (error) {
      if (!isBusy(error) || Date.now() >= deadline) throw error;
      await sleep(10);
    }
  }
  // Always explicit: one driver lowers it by itself in WAL mode.
  database.exec(`PRAGMA synchronous = ${options.durability === "process" ? "NORMAL" : "FULL"}`);
}

class SqliteStore implements Store {
  readonly url: string;
  readonly capabilities: Store["capabilities"];
  readonly texts: SqliteTextIndex;
  readonly #connection: Connection;
  readonly #file: StoreFile | undefined;
  readonly #clock: () => number;
  readonly #sealer: Packer;
  readonly #tail: WriteBuffer;
  readonly #commits: GroupCommit;
  #folding: Promise<void> | undefined;
  #closing: Promise<void> | undefined;

  constructor(connection: Connection, options: SqliteOptions, file?: StoreFile) {
    this.url = connection.url;
    this.capabilities = { durable: file !== undefined, shared: file !== undefined };
    this.#connection = connection;
    this.#file = file;
    if (file) connection.onWrite = () => file.keeper.noteWrite();
    this.#clock = options.now ?? Date.now;
    this.#sealer = new Packer(connection, options);
    // Through a handle of the caller's own others may write as well, and nobody would notice.
    this.#tail = new WriteBuffer(connection, this.#sealer, options, connection.owned);
    connection.onRollback = () => this.#tail.forget();
    this.texts = new SqliteTextIndex(connection, this.#tail, this, () => this.#checkOpen());
    const report = createFailureReporter(options);
    const writer = new Writer(connection, this.#sealer, this.#tail, options);
    this.#commits = new GroupCommit(async (commits) => {
      const outcomes = await writer.apply(commits);
      if (this.#tail.isFull) this.#folding ??= this.#foldAside(report);
      return outcomes;
    });
  }

  async get(keys: readonly string[]): Promise<(StoredRecord | UnreadableRecord | undefined)[]> {
    return this.#read(
      { keys },
      () => {
        const rows = this.#connection.rows<RecordRow>(
          keys.length === 1
            ? "SELECT key, sum, refs, value FROM savepoint_record WHERE key = ?"
            : "SELECT key, sum, refs, value FROM savepoint_record WHERE key IN (SELECT value FROM json_each(?))",
          keys.length === 1 ? (keys[0] as string) : JSON.stringify(keys),
        );
        const byKey = new Map(rows.map((row) => [row.key, verifiedRecord(row)]));
        return keys.map((key) => byKey.get(key));
      },
      (found, waiting) => waiting.get(keys, found),
    );
  }

  async list(
    range: KeyRange,
    { limit, reverse = false }: { limit: number; reverse?: boolean },
  ): Promise<(StoredRecord | UnreadableRecord)[]> {
    return this.#read(
      undefined,
      () =>
        this.#connection
          .rows<RecordRow>(
            `SELECT key, sum, refs, value FROM savepoint_record WHERE key >= ? AND key < ? ORDER BY key ${reverse ? "DESC" : "ASC"} LIMIT ?`,
            range.from,
            range.to,
            limit,
          )
          .map(verifiedRecord),
      (found, waiting) => waiting.list(range, limit, reverse, found),
    );
  }

  async items(spans: readonly ItemSpan[]): Promise<(Frame | Unreadable)[]> {
    return this.#read(
      { tapes: spans.map((span) => span.tape) },
      () => {
        const runs = new ChunkCache(this.#connection);
        const found: (Frame | Unreadable)[] = [];
        this.#connection.snapshot(() => {
          for (const span of spans) readSpan(runs.chunksOf(span), span, found);
        });
        return found;
      },
      (found, waiting) => waiting.items(spans, found),
    );
  }

  async blob(hash: string): Promise<Uint8Array | Unreadable> {
    return this.#readNow(() => {
      const row = this.#connection.row<{ codec: number; body: Uint8Array }>(
        "SELECT codec, body FROM savepoint_blob WHERE hash = ?",
        hash,
      );
      return row ? readBlob(hash, row.codec, row.body) : { unreadable: `blob ${hash} is missing` };
    });
  }

  commit(commit: Commit): Promise<CommitResult> {
    if (this.#closing) return Promise.reject(storeClosed(this.url));
    return this.#commits.commit(commit);
  }

  async now(): Promise<number> {
    this.#checkOpen();
    return this.#clock();
  }

  async itemRefs(span: ItemSpan): Promise<ItemRefs[] | Unreadable> {
    return this.#read(
      { tapes: [span.tape] },
      () => {
        const found: ItemRefs[] = [];
        for (const row of this.#connection.rows<ChunkHead & { body: Uint8Array | null }>(
          selectChunks("tape, first, count, codec, sum, head, CASE WHEN count = 1 THEN body END AS body"),
          ...spanArguments(span),
        )) {
          const refs = unpackRefs(row);
          if ("unreadable" in refs) return refs;
          found.push(...refs.filter(({ item }) => item >= span.start && item < span.start + span.count));
        }
        return found;
      },
      (found, waiting) => waiting.itemRefs(span, found),
    );
  }

  async tapes(range: KeyRange): Promise<string[]> {
    return this.#read(
      undefined,
      () =>
        this.#connection
          .rows<{ tape: string }>(
            "SELECT DISTINCT tape FROM savepoint_run WHERE tape >= ? AND tape < ? ORDER BY tape",
            range.from,
            range.to,
          )
          .map((row) => row.tape),
      (found, waiting) => waiting.tapes(range, found),
    );
  }

  async retain(
    tape: string,
    live: readonly { start: number; count: number }[],
    options: { below: number; repack?: boolean },
  ): Promise<Freed> {
    this.#checkOpen();
    await this.#fold();
    return this.#sealer.retain(tape, live, options);
  }

  async heal(tape: string, items: ReadonlyMap<number, Frame>): Promise<number> {
    this.#checkOpen();
    await this.#fold();
    return this.#connection.transaction("Healing items in", () => healItems(this.#connection, tape, items));
  }

  async check(): Promise<StoreProblem[]> {
    return this.#readNow(() => [...this.#connection.fileProblems(), ...checkDatabase(this.#connection)]);
  }

  async blobs({ after, limit }: { after: string; limit: number }): Promise<string[]> {
    return this.#readNow(() =>
      this.#connection
        .rows<{ hash: string }>("SELECT hash FROM savepoint_blob WHERE hash > ? ORDER BY hash LIMIT ?", after, limit)
        .map((row) => row.hash),
    );
  }

  async dropBlobs(hashes: readonly string[], { unusedSince }: { unusedSince: number }): Promise<Freed> {
    this.#checkOpen();
    const freed = { items: 0, bytes: 0 };
    for (let from = 0; from < hashes.length; from += BLOBS_AT_ONCE) {
      if (from > 0) await nextTurn();
      const some = hashes.slice(from, from + BLOBS_AT_ONCE);
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
    this.#checkOpen();
    try {
      await this.#fold();
      if (await hasMisplacedRecords(this.#connection)) {
        await this.#connection.transaction("Compacting", () => dropMisplacedRecords(this.#connection));
      }
      await this.#sealer.packAll();
      await this.#connection.freePages();
      await (this.#file ? this.#file.keeper.truncate() : this.#connection.truncateWal());
    } catch (error) {
      throw this.#connection.failure(error, "Compacting");
    }
  }

  async bytes(): Promise<number> {
    return this.#readNow(() => {
      if (!this.#file) return this.#connection.pageBytes();
      const { path } = this.#file;
      return [path, `${path}-wal`].reduce(
        (sum, name) => sum + (statSync(name, { throwIfNoEntry: false })?.size ?? 0),
        0,
      );
    });
  }

  async bytesOf(ranges: StoredRanges): Promise<number> {
    const sum = (sql: string, range: KeyRange): number =>
      this.#connection.row<{ bytes: number }>(sql, range.from, range.to)?.bytes ?? 0;
    return this.#read(
      undefined,
      () =>
        this.#connection.snapshot(() => {
          let bytes = 0;
          for (const range of ranges.records) bytes += sum(RECORD_BYTES, range);
          for (const range of ranges.tapes) bytes += sum(RUN_BYTES, range);
          return bytes;
        }),
      (found, waiting) => waiting.bytesOf(ranges, found),
    );
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #close(): Promise<void> {
    await this.#commits.idle();
    await this.#folding;
    // What stays in the tail, should this fail, is folded by whoever opens the file next.
    await this.#fold().catch(() => {});
    await this.#sealer.idle();
    await this.#file?.keeper.close();
    await this.#connection.close();
  }

  /** Writes what waits in the tail to the tables. Fails where nothing can be written. */
  async #fold(): Promise<void> {
    if (!this.#tail.isEmpty) await this.#connection.transaction("Writing to", () => this.#tail.flush());
  }

  /** Does that while nobody waits for it. Whoever reads does it too, so a failure is no loss. */
  async #foldAside(report: (message: string, error: unknown) => void): Promise<void> {
    try {
      // In a turn of its own: those who are answered in this one have enough to do.
      await nextTurn();
      await this.#fold();
    } catch (error) {
      if (!isSavepointError(error, "BUSY") && !isSavepointError(error, "CLOSED")) {
        report("commits could not be folded into the tables, and stay as they are", error);
      }
    } finally {
      this.#folding = undefined;
    }
  }

  /**
   * Reads from the tables.
   *
   * @param names what is read, if that can be said: where none of it waits, nothing needs to be folded
   * @param withWaiting adds what waits in the tail to what was found, for when it cannot be folded just now
   */
  async #read<T>(
    names: Footprint | undefined,
    work: () => T,
    withWaiting: (found: T, waiting: BufferOverlay) => T,
  ): Promise<T> {
    this.#checkOpen();
    try {
      if (names ? !this.#tail.mayContain(names) : this.#tail.isEmpty) return work();
      if (await this.#connection.tryTransaction(() => this.#tail.flush())) return work();
      return this.#connection.snapshot(() => withWaiting(work(), new BufferOverlay(this.#tail.readEntries())));
    } catch (error) {
      throw this.#connection.failure(error, "Reading");
    }
  }

  /** Reads what never waits. */
  #readNow<T>(work: () => T): T {
    this.#checkOpen();
    try {
      return work();
    } catch (error) {
      throw this.#connection.failure(error, "Reading");
    }
  }

  #checkOpen(): void {
    if (this.#closing) throw storeClosed(this.url);
  }
}

function verifiedRecord({ key, sum, refs, value }: RecordRow): StoredRecord | UnreadableRecord {
  if (typeof (key as unknown) !== "string") throw damagedSchema();
  return isChecksum(sum, key, refs, value) ? { key, refs, value } : { key, unreadable: `the record ${key} is damaged` };
}

/** A table that does not have the columns that it should. */
function damagedSchema(): SavepointError<"DAMAGED"> {
  return new SavepointError("DAMAGED", "The tables of the database are damaged. Restore the file from a backup.");
}

/** Where a folder on the way is a file, there is nothing either. */
function statIfThere(path: string): Stats | undefined {
  try {
    return statSync(path);
  } catch (error) {
    if (isMissingFileError(error)) return undefined;
    throw error;
  }
}

function notADatabase(url: string): SavepointError<"NOT_A_STORE"> {
  return new SavepointError(
    "NOT_A_STORE",
    `Cannot open ${url}: it is no database, or what is left of one. It was not touched.`,
  );
}
