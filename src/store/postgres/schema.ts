/**
 * The tables of a PostgreSQL store, and their migrations.
 *
 * Migrations are numbered by their position in the list. New ones are appended; existing ones are never changed. A process
 * that opens a store reads its format without a lock. Only if it is outdated does the process take an advisory lock, check
 * again, and migrate in one transaction: if many processes start at the same time, one migrates, and the others find the
 * store migrated. Functions belong to the format that created them. A later format creates additional functions and keeps
 * the old ones, because processes of the earlier version may still be running.
 */
import { SavepointError } from "../../errors.js";
import { storeNotFound, storeTooOld } from "../shared/index.js";
import type { PostgresConnection } from "./connection.js";
import type { PostgresClient, PostgresValue } from "./driver.js";
import { sqlStateOf } from "./errors.js";
import { commitFunctions } from "./functions.js";
import { runTransaction } from "./transaction.js";
import { EQ, NE } from "./operators.js";

/** The first format that this version reads. Formats before it were never released, so there is no migration from them. */
const FIRST_FORMAT = 2;

/** The first migration creates a store in {@link FIRST_FORMAT}; each other one brings a store to the next format. */
const MIGRATIONS: readonly ((schema: string) => readonly string[])[] = [
  (s) => [
    // Records, by key. The fill factor leaves room in each page, so that a record that is updated often stays on its page:
    // then no index is updated, and old versions are removed by the next statement that reads the page.
    `CREATE TABLE ${s}.savepoint_record (
      key pg_catalog.text COLLATE pg_catalog."C" PRIMARY KEY,
      -- Checksums of key and value, and of key and refs, so that a value can be compared without its refs.
      sum bigint NOT NULL,
      refs_sum bigint NOT NULL,
      refs pg_catalog.text NOT NULL,
      value pg_catalog.text NOT NULL,
      -- Until when reserve() skips the record, in milliseconds. A hint, not a part of the record.
      reserved bigint
    ) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000)`,
    // Chunks: consecutive items of a tape. Those of one commit at first, packed into larger chunks later.
    `CREATE TABLE ${s}.savepoint_chunk (
      tape pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
      first bigint NOT NULL,
      count integer NOT NULL,
      codec smallint NOT NULL,
      sum bigint NOT NULL,
      head pg_catalog.bytea NOT NULL,
      body pg_catalog.bytea NOT NULL,
      PRIMARY KEY (tape, first)
    ) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000)`,
    `CREATE TABLE ${s}.savepoint_blob (
      hash pg_catalog.text COLLATE pg_catalog."C" PRIMARY KEY,
      used_at bigint NOT NULL,
      codec smallint NOT NULL,
      body pg_catalog.bytea NOT NULL
    )`,
    // Savepoint compresses bodies itself.
    `ALTER TABLE ${s}.savepoint_chunk ALTER COLUMN body SET STORAGE EXTERNAL`,
    `ALTER TABLE ${s}.savepoint_blob ALTER COLUMN body SET STORAGE EXTERNAL`,
    ...commitFunctions(s),
  ],
];

export interface PostgresSchemaOptions {
  /** Whether to create or migrate tables; otherwise that fails with `STORE_NOT_FOUND` or `STORE_TOO_OLD`. */
  readonly create: boolean;
  /** Whether the store is only read: then its owner is not trusted, and its tables must not execute code. */
  readonly readOnly: boolean;
  /** For tests. @default the migrations of this version */
  readonly migrations?: typeof MIGRATIONS;
}

/** Creates the tables, or migrates them to the current format. */
export async function migrate(connection: PostgresConnection, options: PostgresSchemaOptions): Promise<void> {
  const { url, schema, busyTimeout: timeout } = connection;
  const { create, readOnly, migrations = MIGRATIONS } = options;
  const current = FIRST_FORMAT + migrations.length - 1;
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
      await client.query(
        `CREATE TABLE ${schema}.savepoint_meta (key pg_catalog.text PRIMARY KEY, value pg_catalog.text NOT NULL)`,
      );
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

/** Reads the format of the store in this schema; 0 if there is none. Throws if this version cannot read it. */
async function readFormat(client: PostgresClient, url: string, schema: string, current: number): Promise<number> {
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
