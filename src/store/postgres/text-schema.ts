/**
 * The tables of the search index. They are created when the index is first used: a store that is never searched has none.
 *
 * If the extension pg_trgm is installed or can be created, documents are found by trigrams. Otherwise every document is
 * scanned: that is slower, and finds the same.
 */
import type { PostgresConnection } from "./connection.js";
import { isSavepointError } from "../../errors.js";
import { isUnreachable } from "./errors.js";
import { runTransaction } from "./transaction.js";
import { EQ } from "./operators.js";

/** Whether the tables exist. */
export async function hasTextTables(connection: PostgresConnection): Promise<boolean> {
  const [found] = await connection.rows<{ present: boolean }>(
    "SELECT pg_catalog.to_regclass($1) IS NOT NULL AS present",
    [`${connection.schema}.savepoint_text_source`],
  );
  return found?.present === true;
}

/** Creates the tables if they do not exist. */
export async function createTextTables(connection: PostgresConnection): Promise<void> {
  const { schema } = connection;
  if (await hasTextTables(connection)) return;
  await createTrigrams(connection);
  const lock = { name: `savepoint ${schema}`, seed: 1 };
  await runTransaction(connection, { purpose: "Searching", timeout: connection.busyTimeout, lock }, async (client) => {
    await client.query(
      `CREATE TABLE IF NOT EXISTS ${schema}.savepoint_text_mark (key pg_catalog.text COLLATE pg_catalog."C" PRIMARY KEY, sum bigint NOT NULL)`,
    );
    await client.query(
      `CREATE TABLE IF NOT EXISTS ${schema}.savepoint_text (number bigint PRIMARY KEY, text pg_catalog.text NOT NULL)`,
    );
    const { rows } =
      await client.query(`SELECT n.nspname AS name FROM pg_catalog.pg_opclass o JOIN pg_catalog.pg_namespace n
        ON n.oid ${EQ} o.opcnamespace WHERE o.opcname ${EQ} 'gin_trgm_ops'`);
    const [trigrams] = rows as { name: string }[];
    if (trigrams) {
      const name = `"${trigrams.name.replaceAll('"', '""')}"`;
      await client.query(
        `CREATE INDEX IF NOT EXISTS savepoint_text_trigrams ON ${schema}.savepoint_text USING gin (text ${name}.gin_trgm_ops)`,
      );
    }
    // Ids are not reused: a process that has read a source which was removed meanwhile must not confuse it with another one.
    await client.query(`CREATE TABLE IF NOT EXISTS ${schema}.savepoint_text_source (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name pg_catalog.text COLLATE pg_catalog."C" NOT NULL UNIQUE,
        count integer NOT NULL, note pg_catalog.text NOT NULL)`);
  });
}

/** In a separate transaction, because a user without the permission to create extensions can still search. */
async function createTrigrams(connection: PostgresConnection): Promise<void> {
  try {
    await runTransaction(connection, { purpose: "Searching", timeout: connection.busyTimeout }, (client) =>
      client.query("CREATE EXTENSION IF NOT EXISTS pg_trgm SCHEMA public"),
    );
  } catch (error) {
    // The permission or the extension is missing, or another process has just created it: the error does not matter.
    if (isSavepointError(error, "BUSY") || isSavepointError(error, "CLOSED") || isUnreachable(error)) throw error;
  }
}
