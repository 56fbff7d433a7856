/**
 * SQLite itself: the one built into Node where it is new enough, else the same API from an npm package.
 *
 * SQLite before 3.51.3 can corrupt a database when a WAL is reset while another process reads, so an older built-in one
 * is not used.
 */
import { SavepointError } from "../../errors.js";

/** What Savepoint needs of a database handle. `node:sqlite`'s `DatabaseSync` and better-sqlite3's handles have it. */
export interface SqliteDatabase {
  exec(sql: string): unknown;
  prepare(sql: string): SqliteStatement;
  close(): unknown;
}

export interface SqliteStatement {
  run(...values: SqliteValue[]): { changes: number | bigint };
  get(...values: SqliteValue[]): unknown;
  all(...values: SqliteValue[]): unknown[];
}

export type SqliteValue = string | number | null | Uint8Array;

type DatabaseClass = new (path: string) => SqliteDatabase;

interface Driver {
  readonly Database: DatabaseClass;
  /** The module it comes from. */
  readonly module: string;
  /** Does closing a database finalize its statements? */
  readonly finalizes: boolean;
}

const OLDEST = [3, 51, 3];
const BUILT_IN = "node:sqlite";
const PACKAGE = "@photostructure/sqlite";

/** Opens a database file, creating it if there is none. */
export async function openDatabase(path: string): Promise<SqliteDatabase> {
  const { Database } = await (driver ??= findDriver());
  return new Database(path);
}

/** Does closing a database close its files at once? */
export async function closeReleasesFiles(): Promise<boolean> {
  return (await (driver ??= findDriver())).finalizes;
}

/** The module that databases are opened with. */
export async function driverModule(): Promise<string> {
  return (await (driver ??= findDriver())).module;
}

let driver: Promise<Driver> | undefined;

async function findDriver(): Promise<Driver> {
  const builtIn = builtInDriver();
  if (builtIn && isNewEnough(builtIn)) return { Database: builtIn, module: BUILT_IN, finalizes: true };
  try {
    const found = (await import(PACKAGE)) as { DatabaseSync: DatabaseClass; StatementSync: { prototype: object } };
    // Since version 2; then statements can also be closed one by one.
    const finalizes = "close" in found.StatementSync.prototype;
    return { Database: found.DatabaseSync, module: PACKAGE, finalizes };
  } catch (cause) {
    throw new SavepointError(
      "MISSING_DEPENDENCY",
      `SQLite stores need ${PACKAGE} on Node ${process.version}, and it could not be loaded. Run: npm install ${PACKAGE}@1`,
      { cause },
    );
  }
}

/** `node:sqlite`, without the warning that it is experimental: it would greet every user of Savepoint. */
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
  for (const [index, oldest] of OLDEST.entries()) {
    const part = parts[index] ?? 0;
    if (part !== oldest) return part > oldest;
  }
  return true;
}
