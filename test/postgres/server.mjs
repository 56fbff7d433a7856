/** A PostgreSQL server for tests and benchmarks: the real one, from an npm package, in a folder that goes with it. */
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";

/**
 * @typedef {object} PostgresServer
 * @property {string} url a database for the tests to fill
 * @property {number} port
 * @property {string} folder the folder of the server; it is removed with everything in it when the server is stopped
 * @property {() => Promise<void>} crash ends the server as a crash would, and starts it again
 * @property {() => Promise<void>} stop stops the server and removes its folder; rejects if the server had ended before
 */

/**
 * @typedef {object} ServerOptions
 * @property {number} [connections] 200 unless given
 * @property {boolean} [fsync] whether the server waits for the disk. It does not unless given: what happens in a power cut
 *   is nothing that tests on a shared server can try.
 * @property {Record<string, string>} [settings] further settings of the server
 */

/**
 * @typedef {object} Report what the supervisor sends
 * @property {"ready" | "failed"} type
 * @property {string} [message]
 * @property {string} [url]
 * @property {number} [port]
 * @property {string} [folder]
 */

/**
 * Starts a server under a supervisor, a process that outlives this one for as long as it takes to stop the server and to
 * remove its folder: nothing is left behind, also when this process is killed.
 *
 * @param {ServerOptions} [options]
 * @returns {Promise<PostgresServer>}
 */
export async function startPostgres({ connections = 200, fsync = false, settings = {} } = {}) {
  const supervisor = fork(
    fileURLToPath(new URL("supervisor.mjs", import.meta.url)),
    [JSON.stringify({ max_connections: String(connections), fsync: fsync ? "on" : "off", ...settings })],
    // In a session of its own: Ctrl-C in the terminal reaches the tests, and not what has to clean up after them.
    { detached: true, execArgv: [], stdio: ["ignore", "inherit", "inherit", "ipc"] },
  );
  const exited = new Promise((resolve) => supervisor.once("exit", resolve));
  /** @type {string | undefined} */
  let failure;
  /** @type {(report: Report) => void} */
  let onReport = () => {};
  supervisor.on("message", (/** @type {Report} */ report) => {
    if (report.type === "failed") failure = report.message;
    onReport(report);
  });
  supervisor.once("error", (error) => onReport({ type: "failed", message: `Its supervisor failed: ${error.message}` }));
  void exited.then((code) => onReport({ type: "failed", message: failure ?? `Its supervisor ended with ${code}.` }));
  const nextReport = () =>
    new Promise((/** @type {(report: Report) => void} */ resolve, reject) => {
      onReport = (report) => (report.type === "ready" ? resolve(report) : reject(failureOf(report.message)));
    });

  const { url = "", port = 0, folder = "" } = await nextReport();
  return {
    url,
    port,
    folder,
    async crash() {
      const restarted = nextReport();
      supervisor.send("crash");
      await restarted;
    },
    async stop() {
      if (supervisor.connected) supervisor.send("stop");
      await exited;
      if (failure) throw failureOf(failure);
    },
  };
}

/** An error without its stack, which says nothing about the server. @param {string} [message] */
function failureOf(message) {
  const error = new Error(message);
  error.stack = `Error: ${message}`;
  return error;
}
