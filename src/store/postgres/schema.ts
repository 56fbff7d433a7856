/**
 * The tables of a PostgreSQL store, and how an older store becomes a newer one.
 *
 * Migrations are numbered by their place in the list and only ever added to. A process that opens a store reads its
 * version without a lock; only if it is outdated does it take an advisory lock, check again, and migrate in one transaction:
 * of many processes that start at once, one migrates and the others find it done. Functions belong to the version that made
 * them: a later one makes new ones beside them, because processes of the earlier version may still be at work.
 */
import { SavepointError } from "../../errors.js";
import { storeNotFound, storeTooOld } from "../shared/index.js";
import type { Connection } from "./connection.js";
import type { PostgresClient, PostgresValue } from "./driver.js";
import { sqlStateOf } from "./errors.js";
import { commitFunctions } from "./functions.js";
import { runTransaction } from "./transaction.js";

/** Migration n brings a store from version n to n + 1. */
const MIGRATIONS: readonly ((schema: string) => readonly string[])[] = [
  (s) => [
    // Records, in key order. Room is left in each page, so that a record that is replaced again and again stays on its
    // page, and no index has to be told; what it was is cleared away by whoever comes to that page next.
    `CREATE TABLE ${s}.savepoint_record (
      key text COLLATE "C" PRIMARY KEY,
      -- Of key and value, and of key and refs: a value can be checked without knowing what it points at.
      sum bigint NOT NULL,
      refs_sum bigint NOT NULL,
      refs text NOT NULL,
      value text NOT NULL,
      -- Until when others who look for work leave it alone, in milliseconds. A hint, and no part of what is stored.
      reserved bigint
    ) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000)`,
    // Items of a tape, side by side: those of one commit at first, packed into larger runs later.
    `CREATE TABLE ${s}.savepoint_run (
      tape text COLLATE "C" NOT NULL,
      first bigint NOT NULL,
      count integer NOT NULL,
      codec smallint NOT NULL,
      sum bigint NOT NULL,
      head bytea NOT NULL,
      body bytea NOT NULL,
      PRIMARY KEY (tape, first)
    ) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000)`,
    `CREATE TABLE ${s}.savepoint_blob (
      hash text COLLATE "C" PRIMARY KEY,
      used_at bigint NOT NULL,
      codec smallint NOT NULL,
      body bytea NOT NULL
    )`,
    // They are compressed before they come, where that pays.
    `ALTER TABLE ${s}.savepoint_run ALTER COLUMN body SET STORAGE EXTERNAL`,
    `ALTER TABLE ${s}.savepoint_blob ALTER COLUMN body SET STORAGE EXTERNAL`,
    ...commitFunctions(s),
  ],
];

export interface MigrateOptions {
  /** Create and upgrade tables? Otherwise a store that needs it is refused. */
  readonly create: boolean;
  /** @default those of this version */
  readonly migrations?: typeof MIGRATIONS;
}

/** Makes sure that the tables are there and current. */
export async function migrate(connection: Connection, options: MigrateOptions): Promise<void> {
  const { url, schema, busyTimeout: timeout } = connection;
  const { create, migrations = MIGRATIONS } = options;
  const known = migrations.length;
  const version = await runTransaction(connection, { purpose: "Opening", timeout }, async (client) => {
    const found = await readVersion(client, url, schema, known);
    // If another session has locked a table, opening fails now with the name of that session, and not the first read later.
    if (found === known) await client.query(touchTables(schema));
    return found;
  });
  if (version === known) return;
  if (!create) throw version === 0 ? storeNotFound(url) : storeTooOld(url, version, known);
  const lock = { name: `savepoint ${schema}`, seed: 0 };
  await runTransaction(connection, { purpose: "Opening", timeout, lock }, async (client) => {
    const current = await readVersion(client, url, schema, known);
    if (current === 0) {
      // If the schema exists already, the right to create one is not needed.
      const sql = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1) AS there";
      const [found] = await answers(client, sql, [nameOf(schema)]);
      if (!found?.there) await client.query(`CREATE SCHEMA ${schema}`);
      await client.query(`CREATE TABLE ${schema}.savepoint_meta (key text PRIMARY KEY, value text NOT NULL)`);
    }
    for (const migration of migrations.slice(current)) {
      for (const statement of migration(schema)) await client.query(statement);
    }
    await client.query(
      `INSERT INTO ${schema}.savepoint_meta (key, value) VALUES ('schema', $1)
       ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
      [String(known)],
    );
  });
}

/** A statement that takes the same locks as all reads, and reads nothing. */
function touchTables(s: string): string {
  return `SELECT FROM ${s}.savepoint_record, ${s}.savepoint_run, ${s}.savepoint_blob LIMIT 0`;
}

/** The name of a schema as it is written in SQL. */
export function quoteName(name: string): string {
  if (name === "" || name.includes("\0") || Buffer.byteLength(name) > 63) {
    throw new SavepointError(
      "INVALID_ARGUMENT",
      `${JSON.stringify(name)} is no name for a schema: it needs 1 to 63 bytes, and no NUL character.`,
    );
  }
  return `"${name.replaceAll('"', '""')}"`;
}

/** The name that was quoted. */
function nameOf(quoted: string): string {
  return quoted.slice(1, -1).replaceAll('""', '"');
}

const NO_SUCH_COLUMN = "42703";

interface Answer {
  readonly value?: string;
  readonly there?: boolean;
}

async function answers(client: PostgresClient, sql: string, values: PostgresValue[] = []): Promise<Answer[]> {
  return (await client.query(sql, values)).rows as Answer[];
}

/** The version of the store in this schema; 0 for none yet. */
async function readVersion(client: PostgresClient, url: string, schema: string, known: number): Promise<number> {
  // The tables themselves are asked: to_regclass may answer from what it knew before the lock was waited for.
  const [meta] = await answers(
    client,
    `SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = $1 AND c.relname = 'savepoint_meta') AS there`,
    [nameOf(schema)],
  );
  if (!meta?.there) return 0;
  const [row] = await answers(client, `SELECT value FROM ${schema}.savepoint_meta WHERE key = 'schema'`).catch(
    (error: unknown) => {
      if (sqlStateOf(error) !== NO_SUCH_COLUMN) throw error;
      return [];
    },
  );
  const version = Number(row?.value);
  if (!Number.isInteger(version) || version < 1) {
    throw new SavepointError(
      "NOT_A_STORE",
      `${url} is not a Savepoint store: its version is unreadable. It was not touched; give another schema.`,
    );
  }
  if (version > known) {
    throw new SavepointError(
      "STORE_TOO_NEW",
      `The store ${url} has format ${version}, this version of Savepoint knows up to ${known}. Update the package; the store was not touched.`,
      { details: { found: version, known } },
    );
  }
  return version;
}
