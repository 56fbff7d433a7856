/** The rows of the tables, and the statements that read and write several of them at once. */
import { type ChunkRow, packItems } from "../chunks/index.js";
import type { Frame, Put, StoredRecord } from "../contract/index.js";
import { checksum, sealedBytes, sealedText } from "../shared/index.js";
import type { SqliteConnection } from "./connection.js";
import type { SqliteValue } from "./driver.js";

/** A row of `savepoint_record`. */
export interface SqliteRecordRow extends StoredRecord {
  readonly sum: number;
}

/** A row as the table has it: a sealed value is stored as its bytes. */
export interface StoredRecordRow extends Omit<SqliteRecordRow, "value"> {
  readonly value: string | Uint8Array;
}

/** A value as the table has it. */
export function toStoredValue(value: string): string | Uint8Array {
  return sealedBytes(value) ?? value;
}

export function toRecordRow(row: StoredRecordRow): SqliteRecordRow {
  const { value } = row;
  return { ...row, value: value instanceof Uint8Array ? sealedText(value) : value };
}

/** A row of `savepoint_chunk`. */
export interface StoredChunk extends ChunkRow {
  readonly id: number;
}

/** The columns of a {@link StoredChunk}. */
export const CHUNK_COLUMNS = "id, tape, first, count, codec, sum, head, body";

/** The most records of one statement. */
const MAX_ROWS = 16;

// Statements by the number of records that they read or write.
const SELECT_RECORDS = statements(
  (count) => `SELECT key, sum, refs, value FROM savepoint_record WHERE key IN (${list("?", count)})`,
);
const INSERT_ABSENT_RECORDS = statements((count) => `${insertInto(count)} ON CONFLICT (key) DO NOTHING`);
const UPSERT_RECORDS = statements(
  (count) =>
    `${insertInto(count)} ON CONFLICT (key) DO UPDATE SET sum = excluded.sum, refs = excluded.refs, value = excluded.value`,
);

const INSERT_CHUNK = `INSERT INTO savepoint_chunk (tape, first, count, codec, sum, head, body)
  VALUES (?, ?, ?, ?, ?, ?, ?)`;
const APPEND_CHUNK = `INSERT INTO savepoint_chunk (tape, first, count, codec, sum, head, body)
  SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 WHERE coalesce(
    (SELECT first + count FROM savepoint_chunk WHERE tape = ?1 AND first < ?8 ORDER BY first DESC LIMIT 1), 0) <= ?2`;

/** No checksum is negative. */
const DAMAGED_SUM = -1;

/** Reads the records under these keys; a missing one is not in the result. */
export function findRecords(connection: SqliteConnection, keys: readonly string[]): Map<string, SqliteRecordRow> {
  const found = new Map<string, SqliteRecordRow>();
  for (let from = 0; from < keys.length; from += MAX_ROWS) {
    const some = keys.slice(from, from + MAX_ROWS);
    const sql = SELECT_RECORDS[some.length] as string;
    for (const row of connection.rows<StoredRecordRow>(sql, ...some)) found.set(row.key, toRecordRow(row));
  }
  return found;
}

/** Writes records, in order. @param ifAbsent keep existing records unchanged */
export function putRecords(connection: SqliteConnection, puts: readonly Put[], ifAbsent: boolean): void {
  for (let from = 0; from < puts.length; from += MAX_ROWS) {
    const some = puts.slice(from, from + MAX_ROWS);
    const values: SqliteValue[] = [];
    for (const { key, value, refs = "" } of some)
      values.push(key, checksum(key, refs, value), refs, toStoredValue(value));
    connection.run((ifAbsent ? INSERT_ABSENT_RECORDS : UPSERT_RECORDS)[some.length] as string, ...values);
  }
}

/** Makes records unreadable whose new values are lost: their old values must not be read as current. */
export function markRecordsLost(connection: SqliteConnection, keys: Iterable<string>): void {
  for (const key of keys) connection.run(UPSERT_RECORDS[1] as string, key, DAMAGED_SUM, "", "");
}

/** Inserts a chunk. */
export function insertChunk(connection: SqliteConnection, row: ChunkRow): void {
  connection.run(INSERT_CHUNK, ...valuesOf(row));
}

/**
 * Appends items as chunks. Returns `false`, and appends nothing, if the tape already has one of these numbers. Chunks of a tape
 * do not overlap, so the last one that starts before the end of the numbers decides.
 */
export function appendItems(
  connection: SqliteConnection,
  tape: string,
  first: number,
  items: readonly Frame[],
): boolean {
  for (const [index, row] of packItems(tape, first, items).entries()) {
    if (index > 0) insertChunk(connection, row);
    else if (connection.run(APPEND_CHUNK, ...valuesOf(row), first + items.length) === 0) return false;
  }
  return true;
}

function valuesOf(row: ChunkRow): [string, number, number, number, number, Uint8Array, Uint8Array] {
  return [row.tape, row.first, row.count, row.codec, row.sum, row.head, row.body];
}

function statements(sql: (count: number) => string): readonly string[] {
  return Array.from({ length: MAX_ROWS + 1 }, (_, count) => sql(count));
}

function insertInto(count: number): string {
  return `INSERT INTO savepoint_record (key, sum, refs, value) VALUES ${list("(?, ?, ?, ?)", count)}`;
}

function list(part: string, count: number): string {
  return Array.from({ length: count }, () => part).join(", ");
}
