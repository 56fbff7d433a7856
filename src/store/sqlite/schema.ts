/**
 * The tables of a SQLite store, and its upgrade from older formats.
 *
 * New migrations are appended to the list; existing ones are never changed. All migrations run in one transaction, which first
 * reads the format again. If two processes open a store at the same time, one migrates it, and the other finds it migrated.
 * Three kinds of files are rejected before anything is written to them: a store with a newer format, a store with a format
 * that was never released, and a file that is not a store.
 */
import { SavepointError } from "../../errors.js";
import { storeNotFound, storeTooOld, storeUnsupported } from "../shared/index.js";
import type { SqliteDatabase } from "./driver.js";
import { isNotADatabase } from "./errors.js";
import { CREATE_TEXT_TABLES } from "./text-schema.js";

/** The oldest format that can be opened. Format 1 was never released; it had other table names. */
const OLDEST_FORMAT = 2;

/** The first migration creates a store of the oldest format; each further one upgrades to the next format. */
const MIGRATIONS: readonly string[] = [
  `
  -- Records, in key order. They are small, so they are stored in the B-tree of the primary key (WITHOUT ROWID).
  CREATE TABLE savepoint_record (
    key TEXT PRIMARY KEY,
    sum INTEGER NOT NULL,
    refs TEXT NOT NULL,
    value TEXT NOT NULL
  ) WITHOUT ROWID;
  -- Chunks: consecutive items of a tape. Small chunks are packed into larger ones later. New rows are appended to the table, so that
  -- a save changes few pages. 'head' contains what garbage collection needs, and comes before 'body'.
  CREATE TABLE savepoint_chunk (
    id INTEGER PRIMARY KEY,
    tape TEXT NOT NULL,
    first INTEGER NOT NULL,
    count INTEGER NOT NULL,
    codec INTEGER NOT NULL,
    sum INTEGER NOT NULL,
    head BLOB NOT NULL,
    body BLOB NOT NULL
  );
  CREATE UNIQUE INDEX savepoint_chunk_place ON savepoint_chunk (tape, first);
  -- The write buffer: commits that are not yet flushed to the tables above. A buffered commit that cannot be flushed because
  -- of damage is moved to savepoint_lost. See write-buffer.ts.
  CREATE TABLE savepoint_buffer (
    id INTEGER PRIMARY KEY,
    keys TEXT NOT NULL,
    keys_sum INTEGER NOT NULL,
    sum INTEGER NOT NULL,
    body BLOB NOT NULL
  );
  CREATE TABLE savepoint_lost (id INTEGER PRIMARY KEY, keys, keys_sum, sum, body);
  CREATE TABLE savepoint_blob (
    hash TEXT PRIMARY KEY,
    used_at INTEGER NOT NULL,
    codec INTEGER NOT NULL,
    body BLOB NOT NULL
  );
  `,
];

const CREATE_META = "CREATE TABLE savepoint_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID";

export interface SqliteSchemaOptions {
  /** Whether the database may have other tables. Only a database that the caller opened may. */
  readonly allowOtherTables: boolean;
  /** Whether to create and upgrade tables. If not, a store whose tables are missing or old is rejected. */
  readonly create: boolean;
  /** @default those of this version */
  readonly migrations?: readonly string[];
}

/** Creates the tables if they do not exist, and upgrades those of an older format. */
export function migrate(database: SqliteDatabase, url: string, options: SqliteSchemaOptions): void {
  const { allowOtherTables, create, migrations = MIGRATIONS } = options;
  const newest = OLDEST_FORMAT + migrations.length - 1;
  const found = readFormat(database, url, allowOtherTables, newest);
  if (found !== undefined) rejectForeignSchema(database, url, "savepoint\\_%", migrations);
  if (found === newest) return;
  if (!create) throw found === undefined ? storeNotFound(url) : storeTooOld(url, found, newest);
  // Must precede the first table. Lets compaction return space without rewriting the file.
  if (found === undefined && !allowOtherTables) database.exec("PRAGMA auto_vacuum = INCREMENTAL");
  database.exec("BEGIN IMMEDIATE");
  try {
    const current = readFormat(database, url, allowOtherTables, newest);
    if (current === undefined) database.exec(CREATE_META);
    const done = current === undefined ? 0 : current - OLDEST_FORMAT + 1;
    for (const migration of migrations.slice(done)) database.exec(migration);
    database.prepare("INSERT OR REPLACE INTO savepoint_meta (key, value) VALUES ('schema', ?)").run(String(newest));
    database.exec("COMMIT");
  } catch (error) {
    rollBack(database);
    throw error;
  }
}

function rollBack(database: SqliteDatabase): void {
  try {
    database.exec("ROLLBACK");
  } catch {
    // SQLite rolls back automatically after errors such as a full disk. Anything else is a consequence of the first error.
  }
}

/** The format of the store in this database; `undefined` if it has none. Throws if this version cannot open it. */
function readFormat(
  database: SqliteDatabase,
  url: string,
  allowOtherTables: boolean,
  newest: number,
): number | undefined {
  const tables = readTables(database, url);
  if (!tables.includes("savepoint_meta")) {
    if (tables.length > 0 && !allowOtherTables) throw notAStore(url, "it is a SQLite database with other tables");
    return undefined;
  }
  // This check comes before the read, because savepoint_meta could be a view.
  rejectForeignSchema(database, url, "savepoint\\_meta");
  const row = database.prepare("SELECT value FROM savepoint_meta WHERE key = 'schema'").get() as
    | { value: string }
    | undefined;
  const format = Number(row?.value);
  if (!Number.isInteger(format) || format < 1) throw notAStore(url, "its format number is unreadable");
  if (format > newest) {
    throw new SavepointError(
      "STORE_TOO_NEW",
      `The store ${url} has format ${format}, and this version of Savepoint supports formats up to ${newest}. It was not changed. Update the package.`,
      { details: { found: format, known: newest } },
    );
  }
  if (format < OLDEST_FORMAT) throw storeUnsupported(url, format, newest);
  return format;
}

interface SchemaEntry {
  readonly type: string;
  readonly name: string;
  readonly sql: string | null;
}

/**
 * Rejects a store whose schema contains anything that Savepoint did not create. Triggers, views, generated columns and
 * indexes on expressions are code that is executed when the table is read or written, and another person may have made the
 * file.
 */
function rejectForeignSchema(
  database: SqliteDatabase,
  url: string,
  tables: string,
  migrations: readonly string[] = MIGRATIONS,
): void {
  const entries = database
    .prepare("SELECT type, name, sql FROM sqlite_schema WHERE tbl_name LIKE ? ESCAPE '\\'")
    .all(tables) as SchemaEntry[];
  // Every statement that creates a part of a store, as SQLite stores it.
  const own = [CREATE_META, ...migrations, ...CREATE_TEXT_TABLES].join("\n").replaceAll(" IF NOT EXISTS", "");
  const foreign = entries.find((entry) => !isOwn(entry, own));
  if (!foreign) return;
  throw new SavepointError(
    "DAMAGED",
    `Cannot open ${url}: its schema has the ${foreign.type} ${JSON.stringify(foreign.name)}, which Savepoint did not create in this form and which could execute SQL that another person wrote. The store was not changed. If you trust the file, remove the added parts of its schema with the sqlite3 shell; otherwise do not use the file.`,
    { details: { name: foreign.name } },
  );
}

/** The tables of the search index. SQLite creates some of them. If they are damaged, all of them are recreated. */
const TEXT_TABLES = /^savepoint_text(_|$)/;

function isOwn({ type, name, sql }: SchemaEntry, own: string): boolean {
  // An index without a statement belongs to a primary key or a unique column.
  if (sql === null) return type === "index";
  return own.includes(sql) || (type === "table" && TEXT_TABLES.test(name));
}

function readTables(database: SqliteDatabase, url: string): string[] {
  try {
    const rows = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all() as { name: string }[];
    return rows.map((row) => row.name);
  } catch (error) {
    if (isNotADatabase(error)) throw notAStore(url, "it is not a SQLite database", error);
    throw error;
  }
}

function notAStore(url: string, why: string, cause?: unknown): SavepointError {
  return new SavepointError(
    "NOT_A_STORE",
    `${url} is not a Savepoint store: ${why}. It was not changed. Use another path.`,
    { cause },
  );
}
