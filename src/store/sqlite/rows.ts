/** The rows of the tables: what a record's is, how large those of runs are meant to be, and how one is added. */
import type { Connection } from "./connection.js";
import type { RunRow } from "./run-codec.js";

/** A row of `savepoint_record`. */
export interface RecordRow {
  readonly key: string;
  readonly sum: number;
  readonly refs: string;
  readonly value: string;
}

/** A run is full with this many items, or with this many bytes. */
export const RUN_ITEMS = 64;
export const RUN_BYTES = 65_536;

const INSERT = `INSERT INTO savepoint_run (tape, first, count, codec, sum, head, body)
  VALUES (?, ?, ?, ?, ?, ?, ?)`;
const APPEND = `INSERT INTO savepoint_run (tape, first, count, codec, sum, head, body)
  SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 WHERE coalesce(
    (SELECT first + count FROM savepoint_run WHERE tape = ?1 AND first < ?8 ORDER BY first DESC LIMIT 1), 0) <= ?2`;

export function insertRun(connection: Connection, row: RunRow): void {
  connection.run(INSERT, ...valuesOf(row));
}

/**
 * Adds a row if none reaches into the `count` numbers that begin with its first, and says whether it did. Rows of a tape
 * do not overlap, so the last that starts before the end of these numbers tells.
 */
export function appendRun(connection: Connection, row: RunRow, count: number): boolean {
  return connection.run(APPEND, ...valuesOf(row), row.first + count) === 1;
}

function valuesOf(row: RunRow): [string, number, number, number, number, Uint8Array, Uint8Array] {
  return [row.tape, row.first, row.count, row.codec, row.sum, row.head, row.body];
}
