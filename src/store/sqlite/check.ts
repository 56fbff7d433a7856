/** What is wrong with a database, beyond what reading its rows shows. */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { StoreProblem } from "../contract/index.js";
import type { Connection } from "./connection.js";
import { isReadError, diskReadFailure } from "./errors.js";

/** Rows whose keys are not texts any more are in no range: a damaged byte can make one of a text. */
const MISPLACED = "SELECT CAST(key AS TEXT) AS key FROM savepoint_record WHERE typeof(key) <> 'text'";
const MISPLACED_RUNS = `SELECT count(*) AS count FROM savepoint_run
  WHERE typeof(tape) <> 'text' OR typeof(first) <> 'integer' OR typeof(count) <> 'integer'`;

export function checkDatabase(connection: Connection): StoreProblem[] {
  const found = connection.rows<{ quick_check: string }>("PRAGMA quick_check(100)").map((row) => row.quick_check);
  const unread = found.find(isReadError);
  if (unread !== undefined) throw diskReadFailure(connection.url, "Checking", new Error(unread));
  const problems: StoreProblem[] = found
    .filter((said) => said !== "ok")
    .map((said) => ({ place: "the database", reason: said }));
  for (const { key } of connection.rows<{ key: string | null }>(MISPLACED)) {
    const problem = { place: "the table of records", reason: "a key is damaged" };
    problems.push(key === null ? problem : { ...problem, record: key });
  }
  const runs = connection.row<{ count: number }>(MISPLACED_RUNS)?.count ?? 0;
  if (runs > 0) problems.push({ place: "the table of items", reason: `${runs} rows are damaged` });
  return problems;
}

/** Keys that are checked before yielding to the event loop. */
const MANY = 4096;
// A row whose key is no longer a text keeps its position in the index, so an iteration over the texts reaches it.
const NEXT_KEYS = `FROM (SELECT key FROM savepoint_record WHERE key > ? ORDER BY key LIMIT ${MANY})`;
const MISPLACED_NEXT = `SELECT count(*) AS count ${NEXT_KEYS} WHERE typeof(key) <> 'text'`;
const LAST_NEXT = `SELECT key ${NEXT_KEYS} LIMIT 1 OFFSET ${MANY - 1}`;

/** Are there rows outside of every key range? Checks all keys, some at a time. */
export async function hasMisplacedRecords(connection: Connection): Promise<boolean> {
  if (connection.row(`${MISPLACED} AND key <= '' LIMIT 1`)) return true;
  for (let from: string | undefined = ""; from !== undefined;) {
    const start: string = from;
    if ((connection.row<{ count: number }>(MISPLACED_NEXT, start)?.count ?? 0) > 0) return true;
    from = connection.row<{ key: string }>(LAST_NEXT, start)?.key;
    await nextTurn();
  }
  return false;
}

/** Removes rows that are in no range, once what they were is there again. */
export function dropMisplacedRecords(connection: Connection): void {
  connection.run(`DELETE FROM savepoint_record WHERE typeof(key) <> 'text'
    AND CAST(key AS TEXT) IN (SELECT key FROM savepoint_record WHERE typeof(key) = 'text')`);
}
