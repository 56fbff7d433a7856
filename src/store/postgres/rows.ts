/** Rows of the tables as `pg` returns them: bigint columns are strings. */
import { checksum, isChecksum, type RecordResult } from "../shared/index.js";
import type { ChunkRow } from "../chunks/index.js";
import type { StoredRecord } from "../contract/index.js";

export interface PostgresRecordRow extends StoredRecord {
  readonly sum: string;
  readonly refs_sum: string;
}

export const RECORD_COLUMNS = "key, sum, refs_sum, refs, value";

export const valueSum = (key: string, value: string): number => checksum(key, value);
export const refsSum = (key: string, refs: string): number => checksum(key, refs);

/** Whether both checksums of a record are correct. */
export function isIntact({ key, sum, refs_sum: sumOfRefs, refs, value }: PostgresRecordRow): boolean {
  return isChecksum(Number(sum), key, value) && isChecksum(Number(sumOfRefs), key, refs);
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
