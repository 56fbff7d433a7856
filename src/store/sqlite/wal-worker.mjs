/**
 * The thread that checkpoints the WAL, because a checkpoint waits for the disk and would block the event loop.
 *
 * It receives the mode of a checkpoint, or "VACUUM" to rewrite the database, and answers when it is done. It ends when it receives "CLOSE". It prepares no
 * statements: with one driver they would keep the files open after the thread has ended.
 *
 * It is JavaScript and imports nothing of the package, so that it also runs from the sources. The build makes a script of it:
 * wal-program.ts.
 */
import { createRequire } from "node:module";
import { parentPort, workerData } from "node:worker_threads";

/** How long a checkpoint waits for readers, in milliseconds. Writers wait as long. */
const BUSY_TIMEOUT = 50;

// The warning that node:sqlite is experimental was suppressed in the main thread as well.
process.emitWarning = () => {};
/** @type {{ path: string, driver: string }} The database, and the name of a built-in driver or the path of another one. */
const { path, driver } = workerData;
const { DatabaseSync } = driver.startsWith("node:") ? process.getBuiltinModule(driver) : createRequire(driver)(driver);
const database = new DatabaseSync(path);
database.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT}; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0`);

parentPort?.on("message", (/** @type {"PASSIVE" | "RESTART" | "TRUNCATE" | "VACUUM" | "CLOSE"} */ mode) => {
  if (mode === "CLOSE") {
    database.close();
    // On Deno the port has no method to close it.
    if (parentPort && "close" in parentPort) parentPort.close();
    else process.exit();
    return;
  }
  try {
    database.exec(mode === "VACUUM" ? mode : `PRAGMA wal_checkpoint(${mode})`);
    parentPort?.postMessage({});
  } catch (error) {
    parentPort?.postMessage({ error });
  }
});
