// Moves the WAL into the database file, in a thread of its own: that waits for the disk, and nobody else should.
import { parentPort, workerData } from "node:worker_threads";

const { driver, path } = workerData;
// node:sqlite would greet every user with the warning that it is experimental.
process.emitWarning = () => {};
const { DatabaseSync } = await import(driver);
const database = new DatabaseSync(path);
// RESTART waits this long for readers and writers; then the next request tries again.
database.exec("PRAGMA busy_timeout = 1000");
database.exec("PRAGMA synchronous = FULL");

parentPort?.on("message", (mode) => {
  if (mode === "close") {
    database.close();
    parentPort?.close();
    return;
  }
  try {
    parentPort?.postMessage(database.prepare(`PRAGMA wal_checkpoint(${mode})`).get());
  } catch (error) {
    parentPort?.postMessage({ failed: String(error) });
  }
});
