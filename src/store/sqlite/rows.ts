/** The rows of the tables: what a record's is, and how one of items is added. */
import type { Frame } from "../contract/index.js";
import type { Connection } from "./connection.js";
import { packItems, type ChunkRow } from "../chunks/index.js";

/** A row of `savepoint_record`. */
export interface RecordRow {
  readonly key: string;
  readonly sum: number;
  readonly refs: string;
  readonly value: string;
}

const INSERT = `INSERT INTO savepoint_run (tape, first, count, codec, sum, head, body)
  VALUES (?, ?, ?, ?, ?, ?, ?)`;
const APPEND = `INSERT INTO savepoint_run (tape, first, count, codec, sum, head, body)
  SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 WHERE coalesce(
    (SELECT first + count FROM savepoint_run WHERE tape = ?1 AND first < ?8 ORDER BY first DESC LIMIT 1), 0) <= ?2`;

export function insertChunk(connection: Connection, row: ChunkRow): void {
  connection.run(INSERT, ...valuesOf(row));
}

/**
 * Adds items in rows that are no larger than a packed one, and says whether it did: it does not where the tape has one of
 * these numbers already. Rows of a tape do not overlap, so the last that starts before the end of the numbers tells.
 */
export function appendItems(connection: Connection, tape: string, first: number, items: readonly Frame[]): boolean {
  for (const [index, row] of packItems(tape, first, items).entries()) {
    if (index > 0) insertChunk(connection, row);
    else if (connection.run(APPEND, ...valuesOf(row), first + items.length) === 0) return false;
  }
  return true;
}

function valuesOf(row: ChunkRow): [string, number, number, number, number, Uint8Array, Uint8Array] {
  return [row.tape, row.first, row.count, row.codec, row.sum, row.head, row.body];
}
