/**
 * The tables of a SQLite store, and how an older store becomes a newer one.
 *
 * Migrations are numbered by their place in the list, only ever added to, and run in one transaction that begins by
 * looking again: of two processes that open at once, one migrates and the other finds it done. A store of a newer
 * version, or a file that is no store, is refused before anything is written to it.
 */
import { SavepointError } from "../../errors.js";
import { storeNotFound, storeTooOld } from "../shared/index.js";
import type { SqliteDatabase } from "./driver.js";
import { isNotADatabase } from "./errors.js";

/** Migration n brings a store from version n to n + 1. */
const MIGRATIONS: readonly string[] = [
  `
  -- Records, in key order. Small, so they may live in the tree itself.
  CREATE TABLE savepoint_record (
    key TEXT PRIMARY KEY,
    sum INTEGER NOT NULL,
    refs TEXT NOT NULL,
    value TEXT NOT NULL
  ) WITHOUT ROWID;
  -- Items of a tape, side by side: those of one commit at first, packed into larger runs later. New runs are appended,
  -- so that a save touches few pages; the index finds them. 'head' has what garbage collection needs, before 'body'.
  CREATE TABLE savepoint_run (
    id INTEGER PRIMARY KEY,
    tape TEXT NOT NULL,
    first INTEGER NOT NULL,
    count INTEGER NOT NULL,
    codec INTEGER NOT NULL,
    sum INTEGER NOT NULL,
    head BLOB NOT NULL,
    body BLOB NOT NULL
  );
  CREATE UNIQUE INDEX savepoint_run_place ON savepoint_run (tape, first);
  -- Commits that wait to be folded into these tables, and those that were too damaged for it; see tail.ts.
  CREATE TABLE savepoint_tail (
    id INTEGER PRIMARY KEY,
    names TEXT NOT NULL,
    names_sum INTEGER NOT NULL,
    sum INTEGER NOT NULL,
    body BLOB NOT NULL
  );
  CREATE TABLE savepoint_lost (id INTEGER PRIMARY KEY, names, names_sum, sum, body);
  CREATE TABLE savepoint_blob (
    hash TEXT PRIMARY KEY,
    used_at INTEGER NOT NULL,
    codec INTEGER NOT NULL,
    body BLOB NOT NULL
  );
  `,
];

export interface SchemaOptions {
  /** May the database have other tables? Only where the caller gave the handle. */
  readonly allowOtherTables: boolean;
  /** Create and upgrade tables? Otherwise a store that needs it is refused. */
  readonly create: boolean;
  /** @default those of this version */
  readonly migrations?: readonly string[];
}

/** Makes sure that the tables are there and current. */
export function migrate(database: SqliteDatabase, url: string, options: SchemaOptions): void {
  const { allowOtherTables, create, migrations = MIGRATIONS } = options;
  const version = readVersion(database, url, allowOtherTables, migrations.length);
  if (version === migrations.length) return;
  if (!create) throw version === 0 ? storeNotFound(url) : storeTooOld(url, version, migrations.length);
  // Must come before the first table: it lets compaction return space without rewriting the whole file.
  if (version === 0 && !allowOtherTables) database.exec("PRAGMA auto_vacuum = INCREMENTAL");
  database.exec("BEGIN IMMEDIATE");
  try {
    const current = readVersion(database, url, allowOtherTables, migrations.length);
    if (current === 0)
      database.exec("CREATE TABLE savepoint_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID");
    for (const migration of migrations.slice(current)) database.exec(migration);
    database
      .prepare("INSERT OR REPLACE INTO savepoint_meta (key, value) VALUES ('schema', ?)")
      .run(String(migrations.length));
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

/** The version of the store in this database; 0 for none yet. */
function readVersion(database: SqliteDatabase, url: string, foreign: boolean, known: number): number {
  const tables = readTables(database, url);
  if (!tables.includes("savepoint_meta")) {
    if (tables.length > 0 && !foreign) throw notAStore(url, "it is a SQLite database with other tables");
    return 0;
  }
  const row = database.prepare("SELECT value FROM savepoint_meta WHERE key = 'schema'").get() as
    | { value: string }
    | undefined;
  const version = Number(row?.value);
  if (!Number.isInteger(version) || version < 1) throw notAStore(url, "its version is unreadable");
  if (version > known) {
    throw new SavepointError(
      "STORE_TOO_NEW",
      `The store ${url} has format ${version}, this version of Savepoint knows up to ${known}. Update the package; the store was not touched.`,
      { details: { found: version, known } },
    );
  }
  return version;
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
    `${url} is not a Savepoint store: ${why}. It was not touched; give another path.`,
    {
      cause,
    },
  );
}
