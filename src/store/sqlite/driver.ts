/**
 * The SQLite driver: `node:sqlite` if its SQLite is new enough, otherwise an npm package with the same API.
 *
 * SQLite before 3.51.3 can corrupt a database when a WAL is reset while another process reads, so an older one is not used.
 */
import { SavepointError } from "../../errors.js";

/** The parts of a database handle that Savepoint uses: of `DatabaseSync` in `node:sqlite`, or of `Database` in better-sqlite3. */
export interface SqliteDatabase {
  exec(sql: string): unknown;
  prepare(sql: string): SqliteStatement;
  close(): unknown;
}

/** A prepared statement of a {@link SqliteDatabase}. */
export interface SqliteStatement {
  run(...values: SqliteValue[]): { changes: number | bigint };
  get(...values: SqliteValue[]): unknown;
  all(...values: SqliteValue[]): unknown[];
}

/** A value that is bound to a statement. */
export type SqliteValue = string | number | null | Uint8Array;

/**
 * The class of a driver. Extensions cannot be loaded and strings cannot be in double quotes, unless an option allows it.
 *
 * @param path a path, or a URL with parameters of SQLite
 */
export type DatabaseClass = new (path: string | URL, options?: { readonly readOnly: boolean }) => SqliteDatabase;

interface Driver {
  readonly Database: DatabaseClass;
  /** The module that exports it. */
  readonly module: string;
  /** Whether closing a database finalizes its statements. */
  readonly finalizes: boolean;
}

const OLDEST_VERSION = [3, 51, 3];
const BUILT_IN = "node:sqlite";
const PACKAGE = "@photostructure/sqlite";

/** Opens a database file. Creates it if it does not exist. */
export async function openDatabase(path: string): Promise<SqliteDatabase> {
  const { Database } = await (driver ??= findDriver());
  return new Database(path);
}

/** The class of the driver, to open databases synchronously. */
export async function databaseClass(): Promise<DatabaseClass> {
  return (await (driver ??= findDriver())).Database;
}

/** Whether closing a database releases its files immediately. */
export async function closeReleasesFiles(): Promise<boolean> {
  return (await (driver ??= findDriver())).finalizes;
}

/** The module that opens databases. */
export async function driverModule(): Promise<string> {
  return (await (driver ??= findDriver())).module;
}

let driver: Promise<Driver> | undefined;

async function findDriver(): Promise<Driver> {
  const builtIn = builtInDriver();
  if (builtIn && isNewEnough(builtIn)) return { Database: builtIn, module: BUILT_IN, finalizes: true };
  try {
    const module = (await import(PACKAGE)) as { DatabaseSync: DatabaseClass; StatementSync: { prototype: object } };
    // Since version 2, which also has a close method for statements.
    const finalizes = "close" in module.StatementSync.prototype;
    return { Database: module.DatabaseSync, module: PACKAGE, finalizes };
  } catch (cause) {
    throw new SavepointError(
      "MISSING_DEPENDENCY",
      `SQLite stores need ${PACKAGE} on Node ${process.version}, which could not be loaded. Run: npm install ${PACKAGE}@1`,
      { cause },
    );
  }
}

/** `node:sqlite`, without the warning that it is experimental, which every user of Savepoint would see. */
function builtInDriver(): DatabaseClass | undefined {
  const emitWarning = process.emitWarning.bind(process);
  process.emitWarning = () => {};
  try {
    return (process.getBuiltinModule(BUILT_IN) as { DatabaseSync: DatabaseClass } | undefined)?.DatabaseSync;
  } finally {
    process.emitWarning = emitWarning;
  }
}

function isNewEnough(Database: DatabaseClass): boolean {
  const database = new Database(":memory:");
  const { version } = database.prepare("SELECT sqlite_version() AS version").get() as { version: string };
  database.close();
  const parts = version.split(".").map(Number);
  for (const [index, oldest] of OLDEST_VERSION.entries()) {
    const part = parts[index] ?? 0;
    if (part !== oldest) return part > oldest;
  }
  return true;
}
