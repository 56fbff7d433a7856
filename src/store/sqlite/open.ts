/** Opens a SQLite store: finds or creates the database, and composes the parts that its target needs. */
import { closeSync, realpathSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { SavepointError } from "../../errors.js";
import { createFile, createFolders } from "../../util/index.js";
import { busyTimeoutOf, createFailureReporter, fileModeOf, type Store } from "../contract/index.js";
import { storeNotFound, testHooksOf } from "../shared/index.js";
import { SqliteConnection } from "./connection.js";
import { closeReleasesFiles, databaseClass, driverModule, openDatabase, type SqliteDatabase } from "./driver.js";
import { isBusy, isCorrupt, isNotADatabase, sqliteFailure } from "./errors.js";
import { FileGuard, statIfExists } from "./file-guard.js";
import { adaptHandle } from "./handle.js";
import { hasJournal, rejectForeignFiles } from "./foreign-files.js";
import type { SqliteOptions, SqliteTarget } from "./options.js";
import { ReadOnlyFiles } from "./read-only-files.js";
import { trackOpenFile } from "./release-files.js";
import { migrate } from "./schema.js";
import { SqliteStore } from "./store.js";
import { WalCheckpointer } from "./wal-checkpointer.js";
import { WalSync } from "./wal-sync.js";

/** The size of the smallest possible database, which has one page. */
const MIN_FILE_BYTES = 512;

/**
 * Opens a SQLite store. Creates the file and its folder if they do not exist.
 *
 * @example
 * const store = await openSqliteStore("./agents.db", { durability: "process" });
 */
export async function openSqliteStore(target: SqliteTarget, options: SqliteOptions = {}): Promise<Store> {
  const isHandle = typeof target !== "string";
  const path = isHandle || target === ":memory:" ? undefined : resolve(target);
  const url = isHandle ? "sqlite: (your handle)" : `sqlite:${target}`;
  const open = (): Promise<Store> => (isHandle ? openHandle(target, url, options) : openPath(path, url, options));
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

/** Opens a store on a database handle that the caller opened. Only its file is guarded: the WAL is managed by the caller. */
async function openHandle(handle: SqliteDatabase, url: string, options: SqliteOptions): Promise<Store> {
  const database = adaptHandle(handle);
  await prepareDatabase(database, url, true, options);
  const path = fileOf(database) || undefined;
  const guard = path === undefined ? undefined : new FileGuard([path], options.onDamage);
  return new SqliteStore(new SqliteConnection(database, url, false, options, { guard, path }), options);
}

/** Opens a file, or a database in memory if there is no path. */
async function openPath(path: string | undefined, url: string, options: SqliteOptions): Promise<Store> {
  if (path !== undefined) await prepareFile(path, url, options);
  if (path !== undefined && options.readOnly) return openReadOnly(realpathSync(path), url, options);
  const database = await openDatabase(path ?? ":memory:");
  const release = path === undefined || (await closeReleasesFiles()) ? undefined : trackOpenFile(realpathSync(path));
  try {
    await prepareDatabase(database, url, false, options);
    return path === undefined
      ? new SqliteStore(new SqliteConnection(database, url, true, options), options)
      : openFile(database, await driverModule(), url, path, options, release);
  } catch (error) {
    await closeAfterFailure(database, release);
    throw error;
  }
}

/** Opens a file without changing it or anything beside it. */
async function openReadOnly(path: string, url: string, options: SqliteOptions): Promise<Store> {
  const release = (await closeReleasesFiles()) ? undefined : trackOpenFile(path);
  // Each time the files are opened: they may have been replaced.
  const files = new ReadOnlyFiles(await databaseClass(), path, url, (database) => {
    if (hasJournal(path)) throw unfinishedTransaction(url, path);
    migrate(database, url, { allowOtherTables: false, create: false });
  });
  let database: SqliteDatabase | undefined;
  try {
    database = files.open();
    const connection = new SqliteConnection(database, url, true, options, { path, release, files });
    return new SqliteStore(connection, options, { path });
  } catch (error) {
    await closeAfterFailure(database, release);
    files.close();
    throw isNotADatabase(error) ? notADatabase(url) : error;
  }
}

/** Rejects a path that cannot be a database and files beside it that no store has, and creates its folder. */
async function prepareFile(path: string, url: string, options: SqliteOptions): Promise<void> {
  const stats = statIfExists(path);
  if (stats && !stats.isFile()) throw notADatabase(url);
  const size = Number(stats?.size ?? 0);
  if ((options.create === false || options.readOnly) && size === 0) throw storeNotFound(url);
  await rejectForeignFiles(stats ? realpathSync(path) : path, url);
  // SQLite would treat such a short file as a new database.
  if (size > 0 && size < MIN_FILE_BYTES) throw notADatabase(url);
  if (options.readOnly) return;
  const mode = fileModeOf(options);
  createFolders(dirname(path), mode);
  if (!stats) createDatabaseFile(path, mode);
}

/** Creates an empty database, because SQLite would not limit who can read it. Its other files get the same permissions. */
function createDatabaseFile(path: string, mode: number): void {
  try {
    closeSync(createFile(path, mode));
  } catch (error) {
    // Another process was faster, or the path is a link to a file that does not exist yet.
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

/** Closes the database after a failure, which an error of closing must not hide. */
async function closeAfterFailure(
  database: SqliteDatabase | undefined,
  release: (() => Promise<void>) | undefined,
): Promise<void> {
  try {
    database?.close();
    await release?.();
  } catch {
    // Nothing that was written through it has been acknowledged.
  }
}

/**
 * Composes the store of a file. The disk is synced and the WAL is checkpointed outside of SQLite.
 *
 * @param path the path in the caller's form, which may contain symbolic links
 */
function openFile(
  database: SqliteDatabase,
  driver: string,
  url: string,
  path: string,
  options: SqliteOptions,
  release: (() => Promise<void>) | undefined,
): Store {
  database.exec("PRAGMA synchronous = NORMAL");
  // Makes SQLite open the WAL and keep it open. Otherwise another process that closes last would delete the file, and we would
  // sync a deleted one.
  database.prepare("SELECT count(*) FROM savepoint_meta").get();
  // SQLite follows symbolic links: its WAL is beside the real file.
  const realPath = fileOf(database);
  const guard = new FileGuard([path, `${realPath}-wal`, `${realPath}-shm`], options.onDamage);
  const sync = options.durability === "process" ? undefined : new WalSync(realPath, testHooksOf(options).syncFile);
  const connection = new SqliteConnection(database, url, true, options, { sync, guard, path: realPath, release });
  const checkpointer = new WalCheckpointer(connection, realPath, driver, createFailureReporter(options));
  return new SqliteStore(connection, options, { path: realPath, checkpointer });
}

/** The file of a database, without symbolic links; empty if it has none. */
function fileOf(database: SqliteDatabase): string {
  const row = database.prepare("SELECT file FROM pragma_database_list WHERE name = 'main'").get() as { file: string };
  return row.file ?? "";
}

/** Creates or upgrades the tables, and sets the journal mode. */
async function prepareDatabase(
  database: SqliteDatabase,
  url: string,
  isHandle: boolean,
  options: SqliteOptions,
): Promise<void> {
  const timeout = busyTimeoutOf(options);
  // Opening may have to wait for another process that opens and migrates at the same time.
  database.exec(`PRAGMA busy_timeout = ${timeout}`);
  // The schema of a file may call functions, and another person may have made the file. A handle has the settings of the caller.
  if (!isHandle) database.exec("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON");
  migrate(database, url, {
    allowOtherTables: isHandle,
    create: options.create !== false || url === "sqlite::memory:",
  });
  if (options.readOnly) return;
  // After it is known to be a store, because this writes to the file. SQLite does not wait for locks here, so we do.
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
  // Always explicit: one driver lowers it automatically in WAL mode.
  database.exec(`PRAGMA synchronous = ${options.durability === "process" ? "NORMAL" : "FULL"}`);
}

function unfinishedTransaction(url: string, path: string): SavepointError<"BUSY"> {
  return new SavepointError(
    "BUSY",
    `Cannot open ${url} read-only: ${path}-journal has an unfinished transaction. Another process is creating the store, or died while it did. Try again; if the file stays, open the store once without \`readOnly\`.`,
  );
}

function notADatabase(url: string): SavepointError<"NOT_A_STORE"> {
  return new SavepointError(
    "NOT_A_STORE",
    `Cannot open ${url}: it is not a SQLite database, or only a part of one. It was not changed.`,
  );
}
