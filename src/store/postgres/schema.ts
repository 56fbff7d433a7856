/**
 * The tables of a PostgreSQL store, and how an older store becomes a newer one.
 *
 * Migrations are numbered by their place in the list and only ever added to. Whoever opens a store looks at its version
 * with one plain read; only who finds it behind takes an advisory lock, looks again, and migrates in one transaction: of
 * many processes that start at once, one migrates and the others find it done. Functions belong to the version that made
 * them: a later one makes new ones beside them, because processes of the earlier version may still be at work.
 */
import { SavepointError } from "../../errors.js";
import { storeNotFound, storeTooOld } from "../as-is.js";
import type { PostgresClient } from "./driver.js";
import { commitFunctions } from "./functions.js";

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
  /** Refuse to make tables, or to change them. */
  readonly asIs: boolean;
  /** @default those of this version */
  readonly migrations?: typeof MIGRATIONS;
}

/** What the schema needs of a connection. */
export interface MigrateConnection {
  readonly url: string;
  /** The schema, quoted. */
  readonly schema: string;
  rows<Row>(sql: string): Promise<Row[]>;
  exclusive<T>(work: (client: PostgresClient) => Promise<T>): Promise<T>;
}

/** Makes sure that the tables are there and current. */
export async function migrate(connection: MigrateConnection, options: MigrateOptions): Promise<void> {
  const { url, schema } = connection;
  const { asIs, migrations = MIGRATIONS } = options;
  const known = migrations.length;
  const version = await readVersion((sql) => connection.rows(sql), url, schema, known);
  if (version === known) return;
  if (asIs) throw version === 0 ? storeNotFound(url) : storeTooOld(url, version, known);
  await connection.exclusive(async (client) => {
    const rows = async (sql: string): Promise<Answer[]> => (await client.query(sql)).rows as Answer[];
    await client.query("BEGIN");
    try {
      await client.query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [`savepoint ${schema}`]);
      const current = await readVersion(rows, url, schema, known);
      if (current === 0) {
        // Where it is there already, the right to make one is not needed.
        const [found] = await rows(
          `SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = ${literal(unquoteName(schema))}) AS there`,
        );
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
      await client.query("COMMIT");
    } catch (error) {
      await client.query("ROLLBACK").catch(() => {});
      throw error;
    }
  });
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

function unquoteName(quoted: string): string {
  return quoted.slice(1, -1).replaceAll('""', '"');
}

interface Answer {
  readonly value?: string;
  readonly there?: boolean;
}

/** The version of the store in this schema; 0 for none yet. */
async function readVersion(
  rows: (sql: string) => Promise<Answer[]>,
  url: string,
  schema: string,
  known: number,
): Promise<number> {
  // Not by to_regclass: it answers from what this connection remembers, which may be from before it waited for the lock.
  const [meta] = await rows(
    `SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = ${literal(unquoteName(schema))} AND c.relname = 'savepoint_meta') AS there`,
  );
  if (!meta?.there) return 0;
  const [row] = await rows(`SELECT value FROM ${schema}.savepoint_meta WHERE key = 'schema'`);
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

/** A text as it is written in SQL. */
function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
