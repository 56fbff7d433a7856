/** Rows of the tables: their checksums, and what `pg` returns (bigint columns are strings). */
import crypto from "node:crypto";
import { checksum, type RecordResult } from "../shared/index.js";
import type { ChunkRow } from "../chunks/index.js";
import type { StoredRecord } from "../contract/index.js";
import { CONCAT } from "./operators.js";

/** The hexadecimal digits of a tag: 128 bits. */
const TAG_DIGITS = 32;

/**
 * The tag of a record: a hash of its key and value. It is the checksum of the row, and what a check compares instead of the
 * value. Different values have different tags, unless SHA-256 is broken.
 */
export function tagOf(key: string, value: string): string {
  return sha256(`${Buffer.byteLength(key)}:${key}${value}`).slice(0, TAG_DIGITS);
}

/** `crypto.hash` takes half the time, because it creates no object, but not every runtime has it. */
const sha256: (text: string) => string =
  "hash" in crypto
    ? (text) => crypto.hash("sha256", text, "hex")
    : (text) => crypto.createHash("sha256").update(text).digest("hex");

/** The tag as a parameter of a statement. */
export const tagParameter = (key: string, value: string): string => `\\x${tagOf(key, value)}`;

/** {@link tagOf} in SQL: what the tag of a row has to be. */
export const ROW_TAG = `pg_catalog.substr(pg_catalog.sha256(pg_catalog.convert_to(
  pg_catalog.octet_length(key)::pg_catalog.text ${CONCAT} ':' ${CONCAT} key ${CONCAT} value, 'UTF8')), 1, 16)`;

/** The checksum of the references of a record; `null` if it has none. */
export function refsSumOf(key: string, refs: string): number | null {
  // As a signed number, because the column has four bytes.
  return refs === "" ? null : checksum(key, refs) | 0;
}

export interface PostgresRecordRow extends StoredRecord {
  readonly tag: string;
  readonly refs_sum: number | null;
}

/** The columns of a record. @param table the alias of the table, with a dot */
export const recordColumns = (table = ""): string =>
  `${table}key, pg_catalog.encode(${table}tag, 'hex') AS tag, ${table}refs_sum, ${table}refs, ${table}value`;

/** Whether both checksums of a record are correct. */
export function isIntact({ key, tag, refs_sum: refsSum, refs, value }: PostgresRecordRow): boolean {
  return tag === tagOf(key, value) && refsSum === refsSumOf(key, refs);
}

/** A row of `savepoint_chunk`, or some of its columns. */
export type Raw<Row> = Omit<Row, "first" | "sum"> & { readonly first: string; readonly sum: string };

export const CHUNK_COLUMNS = "tape, first, count, codec, sum, head, body";

/** Converts the columns that `pg` returns as strings. */
export function toNumbers<Row extends Pick<ChunkRow, "first" | "sum">>(row: Raw<Row>): Row {
  return { ...row, first: Number(row.first), sum: Number(row.sum) } as unknown as Row;
}

export function toRecord(row: PostgresRecordRow): RecordResult {
  const { key, refs, value } = row;
  if (isIntact(row)) return { key, refs, value };
  return { key, unreadable: `the record ${key} is damaged` };
}
