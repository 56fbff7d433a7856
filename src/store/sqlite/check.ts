/** Finds damage of a database that reading its rows does not show. */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { StoreProblem } from "../contract/index.js";
import type { SqliteConnection } from "./connection.js";
import { diskReadFailure, isReadError } from "./errors.js";

// A damaged byte can change the type of a key. Such a row is in no key range, so no read finds it.
const MISPLACED_RECORDS = "SELECT CAST(key AS TEXT) AS key FROM savepoint_record WHERE typeof(key) <> 'text'";
const MISPLACED_CHUNKS = `SELECT count(*) AS count FROM savepoint_chunk
  WHERE typeof(tape) <> 'text' OR typeof(first) <> 'integer' OR typeof(count) <> 'integer'`;

/** Checks the structure of the database and the types of its keys. Throws `IO_FAILED` if the disk fails to read. */
export function checkDatabase(connection: SqliteConnection): StoreProblem[] {
  const reports = connection.rows<{ quick_check: string }>("PRAGMA quick_check(100)").map((row) => row.quick_check);
  const readError = reports.find(isReadError);
  if (readError !== undefined) throw diskReadFailure(connection.url, "Checking", new Error(readError));
  const problems: StoreProblem[] = reports
    .filter((report) => report !== "ok")
    .map((report) => ({ place: "the database", reason: report }));
  for (const { key } of connection.rows<{ key: string | null }>(MISPLACED_RECORDS)) {
    const problem = { place: "the table of records", reason: "a key is damaged" };
    problems.push(key === null ? problem : { ...problem, record: key });
  }
  const chunks = connection.row<{ count: number }>(MISPLACED_CHUNKS)?.count ?? 0;
  if (chunks > 0) problems.push({ place: "the table of chunks", reason: `${chunks} rows are damaged` });
  return problems;
}

/** Keys that are checked before yielding to the event loop. */
const KEYS_PER_TURN = 4096;
// A row whose key is no longer a text keeps its position in the index, so an iteration over the texts reaches it.
const NEXT_KEYS = `FROM (SELECT key FROM savepoint_record WHERE key > ? ORDER BY key LIMIT ${KEYS_PER_TURN})`;
const COUNT_MISPLACED = `SELECT count(*) AS count ${NEXT_KEYS} WHERE typeof(key) <> 'text'`;
const LAST_KEY = `SELECT key ${NEXT_KEYS} LIMIT 1 OFFSET ${KEYS_PER_TURN - 1}`;

/** Whether there are records outside of every key range. Checks all keys, some at a time. */
export async function hasMisplacedRecords(connection: SqliteConnection): Promise<boolean> {
  if (connection.row(`${MISPLACED_RECORDS} AND key <= '' LIMIT 1`)) return true;
  for (let from: string | undefined = ""; from !== undefined;) {
    const start: string = from;
    if ((connection.row<{ count: number }>(COUNT_MISPLACED, start)?.count ?? 0) > 0) return true;
    from = connection.row<{ key: string }>(LAST_KEY, start)?.key;
    await nextTurn();
  }
  return false;
}

/** Removes misplaced records whose key exists again. */
export function dropMisplacedRecords(connection: SqliteConnection): void {
  connection.run(`DELETE FROM savepoint_record WHERE typeof(key) <> 'text'
    AND CAST(key AS TEXT) IN (SELECT key FROM savepoint_record WHERE typeof(key) = 'text')`);
}
