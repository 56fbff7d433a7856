/** Finding and reading the rows that hold spans of items: all of them with one statement. */
import { LazyChunk, readSpan, type ChunkRow } from "../chunks/index.js";
import type { Frame, ItemSpan, Unreadable } from "../contract/index.js";
import { integerArray, textArray } from "./arrays.js";
import type { Connection } from "./connection.js";
import type { PostgresValue } from "./driver.js";
import { type RawChunk, CHUNK_COLUMNS, toChunk } from "./rows.js";

/** The items of these spans, one for one. */
export async function readItems(connection: Connection, spans: readonly ItemSpan[]): Promise<(Frame | Unreadable)[]> {
  const found: (Frame | Unreadable)[] = [];
  if (spans.length === 0) return found;
  const tapes = new Map<string, LazyChunk[]>();
  for (const row of await findChunks(connection, spans)) {
    const run = new LazyChunk(row, row);
    const runs = tapes.get(row.tape);
    if (runs) runs.push(run);
    else tapes.set(row.tape, [run]);
  }
  for (const span of spans) readSpan(runsIn(tapes.get(span.tape) ?? [], span), span, found);
  return found;
}

/** Those rows of a tape that hold a span. */
function runsIn(runs: readonly LazyChunk[], { start, count }: ItemSpan): readonly LazyChunk[] {
  let [low, high] = [0, runs.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((runs[middle] as LazyChunk).first <= start) low = middle + 1;
    else high = middle;
  }
  const from = Math.max(0, low - 1);
  let to = from;
  while (to < runs.length && (runs[to] as LazyChunk).first < start + count) to++;
  return runs.slice(from, to);
}

/** The rows that hold these spans, each once, by tape and number. */
export async function findChunks(connection: Connection, spans: readonly ItemSpan[]): Promise<ChunkRow[]> {
  if (spans.length === 0) return [];
  const rows = await connection.rows<RawChunk>(
    chunkQuery(connection.schema, CHUNK_COLUMNS, spans),
    chunkQueryValues(spans),
  );
  return rows.map(toChunk);
}

/** For each span: the last row that starts at or before it, and those that start inside it. */
export function chunkQuery(schema: string, columns: string, spans: readonly ItemSpan[]): string {
  const table = `${schema}.savepoint_run`;
  if (spans.length === 1) {
    return `SELECT ${columns} FROM ${table} WHERE tape = $1 AND first < $3 AND first >= coalesce(
      (SELECT max(first) FROM ${table} WHERE tape = $1 AND first <= $2), $2) ORDER BY first`;
  }
  return `SELECT ${columns} FROM ${table} WHERE (tape, first) IN (
    SELECT r.tape, r.first FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS s (tape, start, stop)
    CROSS JOIN LATERAL (SELECT tape, first FROM ${table} WHERE tape = s.tape AND first < s.stop AND first >= coalesce(
      (SELECT max(first) FROM ${table} WHERE tape = s.tape AND first <= s.start), s.start)) AS r
  ) ORDER BY tape, first`;
}

export function chunkQueryValues(spans: readonly ItemSpan[]): PostgresValue[] {
  const [span] = spans;
  if (span && spans.length === 1) return [span.tape, span.start, span.start + span.count];
  return [
    textArray(spans.map(({ tape }) => tape)),
    integerArray(spans.map(({ start }) => start)),
    integerArray(spans.map(({ start, count }) => start + count)),
  ];
}
