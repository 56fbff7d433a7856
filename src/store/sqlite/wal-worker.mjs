/**
 * The thread that copies the WAL into the database: it waits for the disk, and the event loop must not.
 *
 * Gets the kind of checkpoint to make, answers when it is made, and ends when it gets `undefined`. It prepares no statements:
 * with one driver they would keep the files open after the thread has ended.
 */
import { parentPort, workerData } from "node:worker_threads";

/** How long a checkpoint may wait for readers, in milliseconds. Writers wait as long. */
const PATIENCE = 50;

// Where it comes from is known by now: nobody needs to hear again that it is experimental.
process.emitWarning = () => {};
const { DatabaseSync } = await import(workerData.driver);
const database = new DatabaseSync(workerData.path);
database.exec(`PRAGMA busy_timeout = ${PATIENCE}; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0`);

parentPort?.on("message", (/** @type {"PASSIVE" | "RESTART" | "TRUNCATE" | undefined} */ mode) => {
  if (mode === undefined) {
    database.close();
    parentPort?.close();
    return;
  }
  try {
    database.exec(`PRAGMA wal_checkpoint(${mode})`);
    parentPort?.postMessage({});
  } catch (error) {
    parentPort?.postMessage({ error });
  }
});
