/** Finds out why a commit was rejected: the statement only shows that a condition did not hold. */
import type { ItemSpan } from "../contract/index.js";
import { integerArray, textArray } from "./arrays.js";
import type { CommitPlan } from "./commit-plan.js";
import type { PostgresConnection } from "./connection.js";
import { ADD, CLOCK, EQ, GT, LT } from "./operators.js";
import { tablesOf } from "./parts.js";
import { isIntact, type PostgresRecordRow, recordColumns } from "./rows.js";

/**
 * The conditions of a plan that do not hold: keys of records, hashes of blobs, names of tapes, and `notBefore`. Empty if all of
 * them hold by now.
 */
export async function findFailedConditions(connection: PostgresConnection, plan: CommitPlan): Promise<string[]> {
  const [records, blobs, tapes, isEarly] = await Promise.all([
    findDifferentRecords(connection, plan),
    findMissingBlobs(connection, plan.usedBlobs),
    findUsedTapes(connection, plan),
    isBefore(connection, plan.notBefore),
  ]);
  // In the order of a commit, which evaluates its checks before its writes: a tape whose numbers are in use is reported only if
  // nothing else failed.
  const failed = new Set([...plan.impossible, ...records, ...blobs, ...(isEarly ? ["notBefore"] : [])]);
  return failed.size > 0 ? [...failed] : tapes;
}

async function findDifferentRecords(connection: PostgresConnection, plan: CommitPlan): Promise<string[]> {
  const expected = [...plan.updates, ...plan.checks, ...plan.removals];
  const absent = [...plan.absent, ...plan.inserts.map(({ key }) => key)];
  const found = await readRecords(connection, [...expected.map(({ key }) => key), ...absent]);
  const different = expected.filter(({ key, before }) => {
    const row = found.get(key);
    return !row || (before !== undefined && (row.value !== before || !isIntact(row)));
  });
  return [...different.map(({ key }) => key), ...absent.filter((key) => found.has(key))];
}

/** Reads the rows of records, intact or not. */
export async function readRecords(
  connection: PostgresConnection,
  keys: readonly string[],
): Promise<Map<string, PostgresRecordRow>> {
  if (keys.length === 0) return new Map();
  const { record } = tablesOf(connection.schema);
  const rows = await connection.rows<PostgresRecordRow>(
    `SELECT ${recordColumns()} FROM ${record} WHERE key ${EQ} ANY ($1::pg_catalog.text[])`,
    [textArray(keys)],
  );
  return new Map(rows.map((row) => [row.key, row]));
}

async function findMissingBlobs(connection: PostgresConnection, hashes: readonly string[]): Promise<string[]> {
  if (hashes.length === 0) return [];
  const { blob } = tablesOf(connection.schema);
  const rows = await connection.rows<{ hash: string }>(
    `SELECT hash FROM ${blob} WHERE hash ${EQ} ANY ($1::pg_catalog.text[])`,
    [textArray(hashes)],
  );
  const found = new Set(rows.map(({ hash }) => hash));
  return hashes.filter((hash) => !found.has(hash));
}

/** The tapes that have one of the numbers of the commit already. */
async function findUsedTapes(connection: PostgresConnection, { chunks }: CommitPlan): Promise<string[]> {
  if (chunks.length === 0) return [];
  const { chunk } = tablesOf(connection.schema);
  const spans = chunks.map(({ tape, first, count }): ItemSpan => ({ tape, start: first, count }));
  const rows = await connection.rows<{ tape: string }>(
    `SELECT w.tape FROM unnest($1::pg_catalog.text[], $2::bigint[], $3::bigint[]) AS w (tape, first, stop)
     WHERE coalesce((SELECT x.first ${ADD} x.count FROM ${chunk} x WHERE x.tape ${EQ} w.tape AND x.first ${LT} w.stop
       ORDER BY x.first DESC LIMIT 1), 0) ${GT} w.first`,
    [
      textArray(spans.map(({ tape }) => tape)),
      integerArray(spans.map(({ start }) => start)),
      integerArray(spans.map(({ start, count }) => start + count)),
    ],
  );
  return [...new Set(rows.map(({ tape }) => tape))];
}

async function isBefore(connection: PostgresConnection, time: number | undefined): Promise<boolean> {
  if (time === undefined) return false;
  const [row] = await connection.rows<{ early: boolean }>(`SELECT $1::bigint ${GT} ${CLOCK} AS early`, [time]);
  return row?.early === true;
}
