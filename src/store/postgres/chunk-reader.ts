/** Reads spans of items: all of their chunks with one statement. */
import { LazyChunk, readSpan, type ChunkRow } from "../chunks/index.js";
import type { Frame, ItemSpan, Unreadable } from "../contract/index.js";
import { addToList, partitionPoint } from "../../util/index.js";
import { integerArray, textArray } from "./arrays.js";
import type { PostgresConnection } from "./connection.js";
import type { PostgresValue } from "./driver.js";
import { CHUNK_COLUMNS, type Raw, toNumbers } from "./rows.js";
import { EQ, GE, LE, LT } from "./operators.js";

/** Reads the items of spans, in order. Each chunk that contains some of them is read once. */
export async function readItems(
  connection: PostgresConnection,
  spans: readonly ItemSpan[],
): Promise<(Frame | Unreadable)[]> {
  const items: (Frame | Unreadable)[] = [];
  if (spans.length === 0) return items;
  const tapes = new Map<string, LazyChunk[]>();
  const sql = chunkQuery(connection.schema, CHUNK_COLUMNS, spans);
  const rows = await connection.rows<Raw<ChunkRow>>(sql, chunkQueryValues(spans));
  for (const row of rows.map(toNumbers)) {
    addToList(tapes, row.tape, new LazyChunk(row, row));
  }
  for (const span of spans) readSpan(chunksIn(tapes.get(span.tape) ?? [], span), span, items);
  return items;
}

/** The chunks of a tape that contain a span. */
function chunksIn(chunks: readonly LazyChunk[], { start, count }: ItemSpan): readonly LazyChunk[] {
  const from = partitionPoint(chunks, ({ first }) => first <= start) - 1;
  const to = partitionPoint(chunks, ({ first }) => first < start + count);
  return chunks.slice(Math.max(0, from), to);
}

/** Selects for each span the last chunk that starts at or before it, and those that start inside it. */
export function chunkQuery(schema: string, columns: string, spans: readonly ItemSpan[]): string {
  const table = `${schema}.savepoint_chunk`;
  if (spans.length === 1) {
    return `SELECT ${columns} FROM ${table} WHERE tape ${EQ} $1 AND first ${LT} $3 AND first ${GE} coalesce(
      (SELECT pg_catalog.max(first) FROM ${table} WHERE tape ${EQ} $1 AND first ${LE} $2), $2) ORDER BY first`;
  }
  return `SELECT ${columns} FROM ${table} WHERE (tape, first) ${EQ} ANY (
    SELECT r.tape, r.first FROM unnest($1::pg_catalog.text[], $2::bigint[], $3::bigint[]) AS s (tape, start, stop)
    CROSS JOIN LATERAL (SELECT tape, first FROM ${table} WHERE tape ${EQ} s.tape AND first ${LT} s.stop AND first ${GE} coalesce(
      (SELECT pg_catalog.max(first) FROM ${table} WHERE tape ${EQ} s.tape AND first ${LE} s.start), s.start)) AS r
  ) ORDER BY tape, first`;
}

/** The parameters of {@link chunkQuery}. */
export function chunkQueryValues(spans: readonly ItemSpan[]): PostgresValue[] {
  const [span] = spans;
  if (span && spans.length === 1) return [span.tape, span.start, span.start + span.count];
  return [
    textArray(spans.map(({ tape }) => tape)),
    integerArray(spans.map(({ start }) => start)),
    integerArray(spans.map(({ start, count }) => start + count)),
  ];
}
