/**
 * Runs a PostgreSQL server for the process that started this one, and cleans up when that process stops it or dies: the
 * server ends and its folder is removed. If the process died, its tests may still run: they are killed first.
 *
 * The argument is the server's settings as JSON. It reports `ready` when the server accepts connections, and `failed` with
 * a message when the server does not start or ends too early. It obeys the messages `crash` (end the server as a crash
 * would, and start it again) and `stop`.
 */
import { spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { chmodSync, chownSync, mkdirSync, mkdtempSync, realpathSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findServerUser, prepareBinaries } from "./binaries.mjs";
import { killProcesses, removeFolders } from "./run-folder.mjs";

/** @typedef {import("./server.mjs").Report} Report */

/** How many lines of output a message shows. */
const SHOWN_LINES = 15;
/** How many ports are tried, if other processes take those that were free. */
const PORT_TRIES = 5;
const ADVICE = "Remove the cause, or set DATABASE_URL to a PostgreSQL server that the tests may fill.";
const PASSWORD = randomBytes(12).toString("hex");

const settings = /** @type {Record<string, string>} */ (JSON.parse(process.argv[2] ?? "{}"));
/** @type {(how: "stopped" | "orphaned" | "failed") => void} */
let end = () => {};
/** @type {Promise<"stopped" | "orphaned" | "failed">} */
const ended = new Promise((resolve) => (end = resolve));

process.once("disconnect", () => end("orphaned"));
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.once(signal, () => end("orphaned"));

/** @param {Report} report */
async function send(report) {
  // The other process may have died; then nothing reads it.
  if (process.connected) await new Promise((resolve) => void process.send?.(report, () => resolve(undefined)));
}

/** A server and its folder. */
class Cluster {
  /** Removed in the end, with everything in it. */
  folder;
  #user;
  #binaries;
  #data;
  #port = 0;
  /** @type {import("node:child_process").ChildProcess | undefined} */
  #server;
  /** @type {string[]} */
  #log = [];
  /** Whether the server is being ended on purpose. */
  #ending = false;

  /** Creates the folder and an empty database in it. @param {string} base where @param {import("./binaries.mjs").User} user */
  constructor(base, user) {
    this.#user = user;
    this.folder = realpathSync(mkdtempSync(join(base, "savepoint-test-")));
    this.#data = join(this.folder, "data");
    try {
      // The server's user has to pass through, and has nothing else to do here.
      chmodSync(this.folder, 0o711);
      this.#binaries = prepareBinaries(user, this.folder);
      this.#initialize();
    } catch (error) {
      removeFolders(this.folder);
      throw error;
    }
  }

  #initialize() {
    mkdirSync(this.#data, { mode: 0o700 });
    const passwordFile = join(this.folder, "password");
    writeFileSync(passwordFile, `${PASSWORD}\n`, { mode: 0o600 });
    if ("uid" in this.#user)
      for (const path of [this.#data, passwordFile]) chownSync(path, this.#user.uid, this.#user.gid);
    const { initdb } = this.#binaries;
    const { error, status, stderr } = spawnSync(
      initdb,
      [
        `--pgdata=${this.#data}`,
        "--username=postgres",
        "--auth=password",
        `--pwfile=${passwordFile}`,
        "--encoding=UTF8",
        "--locale=C",
        "--no-sync",
        "--no-instructions",
        // Tests open thousands of connections, and each would pay for the strength of a password that lives for minutes.
        "--set=scram_iterations=1",
      ],
      { ...this.#spawnOptions(), encoding: "utf8", stdio: ["ignore", "ignore", "pipe"] },
    );
    if (error) throw new Error(`${initdb} cannot be run: ${error.message}.`, { cause: error });
    if (status !== 0) throw new Error(`${initdb} failed in ${this.#data}:\n${lastLines(stderr.split("\n"))}`);
  }

  /** Starts the server, on a free port at first, on the same one later. @returns {Promise<Report>} */
  async start() {
    for (let tries = 1; ; tries++) {
      this.#port ||= await findFreePort();
      const code = await this.#tryStart();
      if (code === "ready") break;
      const log = this.#log.join("\n");
      if (!/could not bind/.test(log) || tries === PORT_TRIES) {
        throw new Error(`${this.#binaries.postgres} ended with ${code} in ${this.#data}:\n${lastLines(this.#log)}`);
      }
      this.#port = 0;
    }
    const url = `postgres://postgres:${PASSWORD}@127.0.0.1:${this.#port}/postgres`;
    return { type: "ready", url, port: this.#port, folder: this.folder };
  }

  /** @returns {Promise<string | number>} `ready`, or what it ended with */
  async #tryStart() {
    const flags = Object.entries({ listen_addresses: "127.0.0.1", unix_socket_directories: "", ...settings });
    this.#log = [];
    const server = (this.#server = spawn(
      this.#binaries.postgres,
      ["-D", this.#data, "-p", String(this.#port), ...flags.flatMap(([name, value]) => ["-c", `${name}=${value}`])],
      { ...this.#spawnOptions(), stdio: ["ignore", "ignore", "pipe"] },
    ));
    return new Promise((resolve, reject) => {
      let isReady = false;
      server.stderr?.setEncoding("utf8").on("data", (/** @type {string} */ chunk) => {
        this.#log = [...this.#log, ...chunk.trimEnd().split("\n")].slice(-100);
        if (isReady || !this.#log.some((line) => /ready to accept (read-only )?connections/.test(line))) return;
        isReady = true;
        resolve("ready");
      });
      server.once("error", (error) => reject(new Error(`${this.#binaries.postgres} cannot be run: ${error.message}.`)));
      // Once its output is complete as well.
      server.once("close", (code, signal) => {
        this.#server = undefined;
        resolve(signal ?? code ?? "nothing");
        if (!isReady || this.#ending) return;
        const message = `PostgreSQL ended with ${signal ?? code} during the run:\n${lastLines(this.#log)}`;
        void send({ type: "failed", message }).then(() => end("failed"));
      });
    });
  }

  /** Ends the server at once: PostgreSQL calls this an immediate shutdown, and recovers from it as from a crash. */
  async end() {
    this.#ending = true;
    const server = this.#server;
    if (server) {
      const closed = once(server, "close");
      server.kill("SIGQUIT");
      await closed;
    }
    this.#ending = false;
  }

  #spawnOptions() {
    // Settings for clients of other servers are not for this one, and its messages are read above.
    const environment = Object.entries(process.env).filter(([name]) => !/^(PG|LC_|LANG)/.test(name));
    return { ...this.#user, cwd: this.folder, env: { ...Object.fromEntries(environment), LC_ALL: "C" } };
  }
}

function createCluster() {
  const user = findServerUser();
  // Another user cannot enter a private folder for temporary files, and runs nothing from one without execute rights.
  const bases = "uid" in user ? [...new Set([tmpdir(), "/var/tmp", "/tmp"])] : [tmpdir()];
  const reasons = [];
  for (const base of bases) {
    try {
      return new Cluster(base, user);
    } catch (error) {
      reasons.push(error instanceof Error ? error.message : String(error));
    }
  }
  throw new Error([...new Set(reasons)].join("\n"));
}

/** @param {readonly string[]} lines */
function lastLines(lines) {
  return lines
    .filter((line) => line.trim() !== "")
    .slice(-SHOWN_LINES)
    .map((line) => `  ${line}`)
    .join("\n");
}

/** @returns {Promise<number>} */
async function findFreePort() {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (probe.address());
  probe.close();
  await once(probe, "close");
  return port;
}

/** @type {Cluster | undefined} */
let cluster;
try {
  const running = (cluster = createCluster());
  process.on("message", (message) => {
    if (message === "stop") end("stopped");
    if (message !== "crash") return;
    running
      .end()
      .then(() => running.start())
      .then(send)
      .catch(fail);
  });
  await send(await running.start());
  if ((await ended) === "orphaned") await killProcesses(running.folder);
} catch (error) {
  await fail(error);
} finally {
  await cluster?.end();
  if (cluster) removeFolders(cluster.folder);
  // Node would wait for the channel.
  process.exit();
}

/** @param {unknown} error */
async function fail(error) {
  const reason = error instanceof Error ? error.message : String(error);
  await send({ type: "failed", message: `PostgreSQL did not start. ${reason}\n${ADVICE}` });
  end("failed");
}
