/** Statements that read and write several records at once. */
import { checksum } from "../shared/index.js";
import type { Put } from "../contract/index.js";
import type { Connection } from "./connection.js";
import type { RecordRow } from "./rows.js";

/** Records read or written by one statement. */
const MAX_ROWS = 16;

/** Statements by how many records they read or write. */
const SELECT = statements(
  (count) => `SELECT key, sum, refs, value FROM savepoint_record WHERE key IN (${list("?", count)})`,
);
const INSERT_ABSENT = statements((count) => `${insertInto(count)} ON CONFLICT (key) DO NOTHING`);
const UPSERT = statements(
  (count) =>
    `${insertInto(count)} ON CONFLICT (key) DO UPDATE SET sum = excluded.sum, refs = excluded.refs, value = excluded.value`,
);

/** No checksum is negative. */
const DAMAGED_SUM = -1;

/** The records under these keys, as far as there are any. */
export function findRecords(connection: Connection, keys: readonly string[]): Map<string, RecordRow> {
  const found = new Map<string, RecordRow>();
  for (let from = 0; from < keys.length; from += MAX_ROWS) {
    const some = keys.slice(from, from + MAX_ROWS);
    for (const row of connection.rows<RecordRow>(SELECT[some.length] as string, ...some)) found.set(row.key, row);
  }
  return found;
}

/** Writes records, in order. @param ifAbsent leave those that exist as they are */
export function putRecords(connection: Connection, puts: readonly Put[], ifAbsent: boolean): void {
  for (let from = 0; from < puts.length; from += MAX_ROWS) {
    const some = puts.slice(from, from + MAX_ROWS);
    const values: (string | number)[] = [];
    for (const { key, value, refs = "" } of some) values.push(key, checksum(key, refs, value), refs, value);
    connection.run((ifAbsent ? INSERT_ABSENT : UPSERT)[some.length] as string, ...values);
  }
}

/** Makes records unreadable whose values are lost: what they were before must not be taken for what they are. */
export function markRecordsLost(connection: Connection, keys: Iterable<string>): void {
  for (const key of keys) connection.run(UPSERT[1] as string, key, DAMAGED_SUM, "", "");
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
