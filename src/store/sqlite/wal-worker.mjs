/**
 * The thread that copies the WAL into the database: it waits for the disk, and the event loop must not.
 *
 * Gets the kind of checkpoint to make, answers with what SQLite says, and ends when it gets `undefined`.
 */
import { parentPort, workerData } from "node:worker_threads";

/** How long a checkpoint may wait for readers, in milliseconds. Writers wait as long. */
const PATIENCE = 50;

// Where it comes from is known by now: nobody needs to hear again that it is experimental.
process.emitWarning = () => {};
const { DatabaseSync } = await import(workerData.driver);
const database = new DatabaseSync(workerData.path);
database.exec(`PRAGMA busy_timeout = ${PATIENCE}; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0`);

parentPort?.on("message", (/** @type {"PASSIVE" | "RESTART" | undefined} */ mode) => {
  if (mode === undefined) {
    database.close();
    parentPort?.close();
    return;
  }
  try {
    parentPort?.postMessage({ pages: database.prepare(`PRAGMA wal_checkpoint(${mode})`).get() });
  } catch (error) {
    parentPort?.postMessage({ error });
  }
});
