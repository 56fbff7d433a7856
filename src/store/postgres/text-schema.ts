/**
 * The tables of the search index. They are made when it is first used: a store that is never searched has none of them.
 *
 * Where the extension pg_trgm is there or can be made, documents are found by trigrams. Where it is neither, every
 * document is looked at: that takes longer, and finds the same.
 */
import type { Connection } from "./connection.js";
import { isSavepointError } from "../../errors.js";

const LOCK = "SELECT pg_advisory_xact_lock(hashtextextended($1, 1))";

/** Makes the tables where there are none. */
export async function createTextTables(connection: Connection): Promise<void> {
  const { schema } = connection;
  const [found] = await connection.rows<{ there: boolean }>("SELECT to_regclass($1) IS NOT NULL AS there", [
    `${schema}.savepoint_text_source`,
  ]);
  if (found?.there) return;
  await createTrigrams(connection);
  await connection.exclusive(async (client) => {
    await client.query("BEGIN ISOLATION LEVEL READ COMMITTED");
    try {
      await client.query(LOCK, [`savepoint ${schema}`]);
      await client.query(
        `CREATE TABLE IF NOT EXISTS ${schema}.savepoint_text_mark (key text COLLATE "C" PRIMARY KEY, sum bigint NOT NULL)`,
      );
      await client.query(
        `CREATE TABLE IF NOT EXISTS ${schema}.savepoint_text (number bigint PRIMARY KEY, text text NOT NULL)`,
      );
      const { rows } = await client.query(`SELECT n.nspname AS name FROM pg_opclass o JOIN pg_namespace n
        ON n.oid = o.opcnamespace WHERE o.opcname = 'gin_trgm_ops'`);
      const [trigrams] = rows as { name: string }[];
      if (trigrams) {
        const name = `"${trigrams.name.replaceAll('"', '""')}"`;
        await client.query(
          `CREATE INDEX IF NOT EXISTS savepoint_text_trigrams ON ${schema}.savepoint_text USING gin (text ${name}.gin_trgm_ops)`,
        );
      }
      // Ids are not given again: whoever has read a source that was removed meanwhile must not take another for it.
      await client.query(`CREATE TABLE IF NOT EXISTS ${schema}.savepoint_text_source (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text COLLATE "C" NOT NULL UNIQUE,
        count integer NOT NULL, note text NOT NULL)`);
      await client.query("COMMIT");
    } catch (error) {
      await client.query("ROLLBACK").catch(() => {});
      throw error;
    }
  });
}

/** In a transaction of its own: a user who may not make extensions may still search. */
async function createTrigrams(connection: Connection): Promise<void> {
  try {
    await connection.rows("CREATE EXTENSION IF NOT EXISTS pg_trgm", [], "Searching");
  } catch (error) {
    // The right is missing, the server does not have it, or somebody else has just made it: whatever the server says.
    if (isSavepointError(error, "UNAVAILABLE") || isSavepointError(error, "CLOSED")) throw error;
  }
}
