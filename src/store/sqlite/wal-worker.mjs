/**
 * The thread that checkpoints the WAL, because a checkpoint waits for the disk and would block the event loop.
 *
 * It receives the mode of a checkpoint and answers when it is done. It ends when it receives `undefined`. It prepares no
 * statements: with one driver they would keep the files open after the thread has ended.
 */
import { parentPort, workerData } from "node:worker_threads";

/** How long a checkpoint waits for readers, in milliseconds. Writers wait as long. */
const BUSY_TIMEOUT = 50;

// The warning that node:sqlite is experimental was suppressed in the main thread as well.
process.emitWarning = () => {};
const { DatabaseSync } = await import(workerData.driver);
const database = new DatabaseSync(workerData.path);
database.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT}; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0`);

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
