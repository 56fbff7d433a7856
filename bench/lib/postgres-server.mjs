// A PostgreSQL server for benchmarks, which waits for its disk at every commit.
import pg from "pg";
import { startPostgres } from "../../test/postgres/server.mjs";

let schemas = 0;

/** @typedef {{ url: string; query: (sql: string, values?: unknown[]) => Promise<any[]> }} Server */

/** Runs work beside a server, which is stopped and removed afterwards. @template T @param {(server: Server) => Promise<T>} work */
export async function withPostgres(work) {
  const { url, stop } = await startPostgres({
    connections: 300,
    fsync: true,
    // A dump of everything in the middle of one contender's turn would be that contender's bad luck.
    settings: { max_wal_size: "8GB", checkpoint_timeout: "1h" },
  });
  const client = new pg.Client({ connectionString: url });
  try {
    await client.connect();
    return await work({ url, query: async (sql, values) => (await client.query(sql, values)).rows });
  } catch (error) {
    // Connections that are open when the server stops fail as well, and may be reported first.
    console.error(error);
    throw error;
  } finally {
    await client.end();
    await stop();
  }
}

/** Runs work on a schema of its own, which is dropped afterwards. @template T @param {Server} server @param {(url: string, schema: string) => Promise<T>} work */
export async function inSchema(server, work) {
  const schema = `bench_${process.pid}_${++schemas}`;
  const url = new URL(server.url);
  url.searchParams.set("schema", schema);
  try {
    return await work(url.href, schema);
  } finally {
    await server.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`);
  }
}

/** Writes everything out, so that no contender pays for those before it. @param {Server} server */
export const settle = (server) => server.query("CHECKPOINT");

/** Bytes of the tables of a schema with their indexes. @param {Server} server @param {string} schema */
export async function sizeOfSchema(server, schema) {
  const [row] = await server.query(
    `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) AS bytes FROM pg_class c
     WHERE c.relnamespace = to_regnamespace($1) AND c.relkind = 'r'`,
    [schema],
  );
  return Number(row.bytes);
}

/** Bytes that were written to the log of the server so far. @param {Server} server */
export async function walBytes(server) {
  const [row] = await server.query("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn AS bytes");
  return Number(row.bytes);
}
