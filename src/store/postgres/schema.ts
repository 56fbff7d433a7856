/**
 * The tables of a PostgreSQL store, and their migrations. A store has tables and nothing else: no functions and no triggers.
 *
 * Migrations are numbered by their position in the list. New ones are appended; existing ones are never changed. A process
 * that opens a store reads its format without a lock. Only if it is outdated does the process take an advisory lock, check
 * again, and migrate in one transaction: if many processes start at the same time, one migrates, and the others find the
 * store migrated. In the portable profile each statement is repeatable and a transaction of its own, so no lock is needed.
 */
import { SavepointError } from "../../errors.js";
import { storeNotFound, storeTooOld } from "../shared/index.js";
import type { PostgresConnection } from "./connection.js";
import type { PostgresClient, PostgresValue } from "./driver.js";
import { sqlStateOf } from "./errors.js";
import { runTransaction } from "./transaction.js";
import { EQ, LT, NE } from "./operators.js";

/** The first format that this version reads. Formats before it were never released, so there is no migration from them. */
const FIRST_FORMAT = 3;

/** The first migration creates a store in {@link FIRST_FORMAT}; each other one brings a store to the next format. */
const MIGRATIONS: readonly ((schema: string) => readonly string[])[] = [
  (s) => [
    // Records, by key. The fill factor leaves room in each page, so that a record that is updated often stays on its page:
    // then no index is updated, and old versions are removed by the next statement that reads the page.
    `CREATE TABLE ${s}.savepoint_record (${recordColumnsOf(BYTEWISE)})
      WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000)`,
    `CREATE TABLE ${s}.savepoint_chunk (${chunkColumnsOf(BYTEWISE)})
      WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000)`,
    `CREATE TABLE ${s}.savepoint_blob (${blobColumnsOf(BYTEWISE)})`,
    // Savepoint compresses bodies itself.
    `ALTER TABLE ${s}.savepoint_chunk ALTER COLUMN body SET STORAGE EXTERNAL`,
    `ALTER TABLE ${s}.savepoint_blob ALTER COLUMN body SET STORAGE EXTERNAL`,
  ],
];

/** The format that this version writes. */
export const CURRENT_FORMAT = FIRST_FORMAT + MIGRATIONS.length - 1;

/** Creates a store in the current format, in the portable profile. The table with the format comes last. */
const PORTABLE_TABLES = (s: string): readonly string[] => [
  `CREATE TABLE IF NOT EXISTS ${s}.savepoint_record (${recordColumnsOf("")})`,
  `CREATE TABLE IF NOT EXISTS ${s}.savepoint_chunk (${chunkColumnsOf("")})`,
  `CREATE TABLE IF NOT EXISTS ${s}.savepoint_blob (${blobColumnsOf("")})`,
  `CREATE TABLE IF NOT EXISTS ${s}.savepoint_meta (${META_COLUMNS})`,
];

/** Sorts strings by their bytes, independently of the default of the database. */
const BYTEWISE = 'COLLATE pg_catalog."C"';

const recordColumnsOf = (collation: string): string => `
  key pg_catalog.text ${collation} PRIMARY KEY,
  -- A hash of key and value: the checksum of both, and what a check compares.
  tag pg_catalog.bytea NOT NULL,
  -- The checksum of key and refs; null if there are none.
  refs_sum integer,
  refs pg_catalog.text NOT NULL,
  value pg_catalog.text NOT NULL,
  -- Until when reserve() skips the record, in milliseconds. A hint, not a part of the record.
  reserved bigint`;

/** Chunks: consecutive items of a tape. Those of one commit at first, packed into larger chunks later. */
const chunkColumnsOf = (collation: string): string => `
  tape pg_catalog.text ${collation} NOT NULL,
  first bigint NOT NULL,
  count integer NOT NULL,
  codec smallint NOT NULL,
  sum bigint NOT NULL,
  head pg_catalog.bytea NOT NULL,
  body pg_catalog.bytea NOT NULL,
  PRIMARY KEY (tape, first)`;

const blobColumnsOf = (collation: string): string => `
  hash pg_catalog.text ${collation} PRIMARY KEY,
  used_at bigint NOT NULL,
  codec smallint NOT NULL,
  body pg_catalog.bytea NOT NULL`;

const META_COLUMNS = "key pg_catalog.text PRIMARY KEY, value pg_catalog.text NOT NULL";

export interface PostgresSchemaOptions {
  /** Whether to create or migrate tables; otherwise that fails with `STORE_NOT_FOUND` or `STORE_TOO_OLD`. */
  readonly create: boolean;
  /** Whether the store is only read: then its owner is not trusted, and its tables must not execute code. */
  readonly readOnly: boolean;
  /** Whether to use only what databases with the protocol of PostgreSQL have in common. */
  readonly portable: boolean;
  /** For tests. @default the migrations of this version */
  readonly migrations?: typeof MIGRATIONS;
}

/** Creates the tables, or migrates them to the current format. */
export async function migrate(connection: PostgresConnection, options: PostgresSchemaOptions): Promise<void> {
  const { url, schema, busyTimeout: timeout } = connection;
  const { create, readOnly, portable, migrations = MIGRATIONS } = options;
  const current = FIRST_FORMAT + migrations.length - 1;
  if (portable) return createPortably(connection, options, current);
  const format = await runTransaction(connection, { purpose: "Opening", timeout }, async (client) => {
    if (readOnly) await rejectActiveTables(client, url, schema);
    const found = await readFormat(client, url, schema, current);
    // If another session has locked a table, opening fails now and names that session, instead of the first read later.
    if (found === current) await client.query(lockTables(schema));
    return found;
  });
  if (format === current) return;
  if (!create) throw format === 0 ? storeNotFound(url) : storeTooOld(url, format, current);
  const lock = { name: `savepoint ${schema}`, seed: 0 };
  await runTransaction(connection, { purpose: "Opening", timeout, lock }, async (client) => {
    const before = await readFormat(client, url, schema, current);
    if (before === 0) {
      // If the schema exists, the permission to create one is not needed.
      const sql = `SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname ${EQ} $1) AS present`;
      const [namespace] = await selectRows(client, sql, [unquoteName(schema)]);
      if (!namespace?.present) await client.query(`CREATE SCHEMA ${schema}`);
      await client.query(`CREATE TABLE ${schema}.savepoint_meta (${META_COLUMNS})`);
    }
    for (const migration of migrations.slice(before === 0 ? 0 : before - FIRST_FORMAT + 1)) {
      for (const statement of migration(schema)) await client.query(statement);
    }
    await client.query(
      `INSERT INTO ${schema}.savepoint_meta (key, value) VALUES ('schema', $1)
       ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
      [String(current)],
    );
  });
}

/** The SQLSTATEs of something that another process has just created. */
const EXISTS_STATES = new Set(["23505", "42P06", "42P07"]);
/** How often a statement is repeated because another process was creating the same. */
const MAX_TRIES = 10;

/** Creates the tables without a lock: any process may create any of them, and the format is written when all exist. */
async function createPortably(
  connection: PostgresConnection,
  { create, readOnly }: PostgresSchemaOptions,
  current: number,
): Promise<void> {
  const { url, schema } = connection;
  await connection.withClient(async (client) => {
    const [order] = await selectRows(
      client,
      `SELECT ('B'::pg_catalog.text ${LT} 'a'::pg_catalog.text AND '\ufffd'::pg_catalog.text ${LT} '\u{10000}'::pg_catalog.text) AS present`,
    );
    if (order?.present !== true) {
      throw new SavepointError(
        "STORE_FAILED",
        `The database of ${url} does not sort strings by their bytes, which the portable profile requires. Create a database with: CREATE DATABASE … LC_COLLATE 'C' TEMPLATE template0`,
      );
    }
    if (readOnly) await rejectActiveTables(client, url, schema);
    const format = await readFormat(client, url, schema, current, true);
    if (format === current) return;
    if (!create) throw format === 0 ? storeNotFound(url) : storeTooOld(url, format, current);
    const sql = `SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname ${EQ} $1) AS present`;
    const [namespace] = await selectRows(client, sql, [unquoteName(schema)]);
    if (!namespace?.present) await createIfMissing(client, `CREATE SCHEMA IF NOT EXISTS ${schema}`);
    for (const statement of PORTABLE_TABLES(schema)) await createIfMissing(client, statement);
    await client.query(
      `INSERT INTO ${schema}.savepoint_meta (key, value) VALUES ('schema', $1) ON CONFLICT DO NOTHING`,
      [String(current)],
    );
  });
}

/** `IF NOT EXISTS` can still fail while another process creates the same. */
async function createIfMissing(client: PostgresClient, sql: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await client.query(sql);
      return;
    } catch (error) {
      if (!EXISTS_STATES.has(sqlStateOf(error) ?? "") || tries === MAX_TRIES) throw error;
    }
  }
}

/** Rejects a table if a SELECT on it could execute code of its owner: views, foreign tables, row security and child tables. */
async function rejectActiveTables(client: PostgresClient, url: string, schema: string): Promise<void> {
  const [found] = await selectRows(
    client,
    `SELECT c.relname AS value FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid ${EQ} c.relnamespace
     WHERE n.nspname ${EQ} $1 AND c.relname ${EQ} ANY (ARRAY['savepoint_meta', 'savepoint_record', 'savepoint_chunk', 'savepoint_blob'])
       AND (c.relkind ${NE} 'r' OR c.relrowsecurity OR c.relhassubclass) LIMIT 1`,
    [unquoteName(schema)],
  );
  if (!found) return;
  throw new SavepointError(
    "NOT_A_STORE",
    `${url} was not opened: reading ${String(found.value)} could execute code of its owner, because it is not a plain table or has row security or child tables. If you trust its owner, open it with create: false instead of readOnly: true.`,
  );
}

/** A statement that takes the same locks as any read, and reads nothing. */
function lockTables(s: string): string {
  return `SELECT FROM ${s}.savepoint_record, ${s}.savepoint_chunk, ${s}.savepoint_blob LIMIT 0`;
}

/** Quotes the name of a schema for SQL. */
export function quoteName(name: string): string {
  if (name === "" || name.includes("\0") || Buffer.byteLength(name) > 63) {
    throw new SavepointError(
      "INVALID_ARGUMENT",
      `The schema name ${JSON.stringify(name)} is invalid: it must have 1 to 63 bytes and no NUL character.`,
    );
  }
  return `"${name.replaceAll('"', '""')}"`;
}

/** Reverses {@link quoteName}. */
function unquoteName(quoted: string): string {
  return quoted.slice(1, -1).replaceAll('""', '"');
}

const UNDEFINED_COLUMN = "42703";

interface SelectedRow {
  readonly value?: string;
  readonly present?: boolean;
}

async function selectRows(client: PostgresClient, sql: string, values: PostgresValue[] = []): Promise<SelectedRow[]> {
  return (await client.query(sql, values)).rows as SelectedRow[];
}

/**
 * Reads the format of the store in this schema; 0 if there is none. Throws if this version cannot read it.
 *
 * @param isGradual whether tables are created one by one, so that the format may be missing
 */
async function readFormat(
  client: PostgresClient,
  url: string,
  schema: string,
  current: number,
  isGradual = false,
): Promise<number> {
  // From the catalog tables: to_regclass may use a cache from before this transaction waited for the lock.
  const [meta] = await selectRows(
    client,
    `SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid ${EQ} c.relnamespace
      WHERE n.nspname ${EQ} $1 AND c.relname ${EQ} 'savepoint_meta') AS present`,
    [unquoteName(schema)],
  );
  if (!meta?.present) return 0;
  const [row] = await selectRows(client, `SELECT value FROM ${schema}.savepoint_meta WHERE key ${EQ} 'schema'`).catch(
    (error: unknown) => {
      if (sqlStateOf(error) !== UNDEFINED_COLUMN) throw error;
      return [];
    },
  );
  if (!row && isGradual) return 0;
  const format = Number(row?.value);
  if (!Number.isInteger(format) || format < 1) {
    throw new SavepointError(
      "NOT_A_STORE",
      `${url} is not a Savepoint store: its format is unreadable. It was not changed. Use another schema.`,
    );
  }
  if (format > current) {
    throw new SavepointError(
      "STORE_TOO_NEW",
      `The store ${url} has format ${format}, and this version of Savepoint supports formats up to ${current}. Update the package. The store was not changed.`,
      { details: { found: format, known: current } },
    );
  }
  if (format < FIRST_FORMAT) {
    throw new SavepointError(
      "STORE_TOO_OLD",
      `The store ${url} has the unreleased format ${format}, and this version of Savepoint supports formats from ${FIRST_FORMAT}. The store was not changed. Export it with the version that wrote it ("savepoint export"), and import the bundle into a new schema.`,
      { details: { found: format, known: current } },
    );
  }
  return format;
}
