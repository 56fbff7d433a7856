/** What is wrong with a database, beyond what reading its rows shows. */
import type { StoreProblem } from "../store.js";
import type { Connection } from "./connection.js";

/** Rows whose keys are not texts any more are in no range: a damaged byte can make one of a text. */
const MISPLACED = "SELECT CAST(key AS TEXT) AS key FROM savepoint_record WHERE typeof(key) <> 'text'";
const MISPLACED_RUNS = `SELECT count(*) AS count FROM savepoint_run
  WHERE typeof(tape) <> 'text' OR typeof(first) <> 'integer' OR typeof(count) <> 'integer'`;

export function checkDatabase(connection: Connection): StoreProblem[] {
  const problems: StoreProblem[] = connection
    .rows<{ quick_check: string }>("PRAGMA quick_check(100)")
    .filter(({ quick_check: said }) => said !== "ok")
    .map(({ quick_check: said }) => ({ place: "the database", reason: said }));
  for (const { key } of connection.rows<{ key: string | null }>(MISPLACED)) {
    const problem = { place: "the table of records", reason: "a key is damaged" };
    problems.push(key === null ? problem : { ...problem, record: key });
  }
  const runs = connection.row<{ count: number }>(MISPLACED_RUNS)?.count ?? 0;
  if (runs > 0) problems.push({ place: "the table of items", reason: `${runs} rows are damaged` });
  return problems;
}

/** Are there rows in no range? Looks at all keys. */
export function hasMisplaced(connection: Connection): boolean {
  return connection.row(`${MISPLACED} LIMIT 1`) !== undefined;
}

/** Removes rows that are in no range, once what they were is there again. */
export function dropMisplaced(connection: Connection): void {
  connection.run(`DELETE FROM savepoint_record WHERE typeof(key) <> 'text'
    AND CAST(key AS TEXT) IN (SELECT key FROM savepoint_record WHERE typeof(key) = 'text')`);
}
