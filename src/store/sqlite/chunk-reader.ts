/** Finding the rows that hold a span of items. */
import type { ItemSpan } from "../contract/index.js";
import { LazyChunk, CHUNK_ITEMS, type ChunkRow } from "../chunks/index.js";
import type { Connection } from "./connection.js";

/** Spans of one list often lie in one run: that is read and unpacked once. */
export class ChunkCache {
  readonly #connection: Connection;
  readonly #runs = new Map<string, LazyChunk>();
  readonly #tapes = new Set<string>();

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** The rows that hold a span. A long one, or the first of its tape, is read at once; else only those not read before. */
  chunksOf(span: ItemSpan): LazyChunk[] {
    const { tape } = span;
    if (span.count > CHUNK_ITEMS || !this.#tapes.has(tape)) {
      this.#tapes.add(tape);
      const rows = this.#connection.rows<ChunkRow>(LONG_SPAN, ...spanArguments(span));
      return rows.map((row) => (row.tape === tape ? this.#keep(row) : misplaced(tape, row)));
    }
    const places = this.#connection.rows<{ id: number; first: number; count: number }>(SPAN, ...spanArguments(span));
    return places.map(({ id, first, count }) => {
      const known = this.#runs.get(`${first} of ${tape}`);
      if (known) return known;
      const row = this.#connection.row<ChunkRow>(RUN, id);
      // The row's checksum covers the place that the row has. That it is the place that was looked for is another
      // question: a damaged index leads to a row that is whole and belongs elsewhere.
      if (row?.tape === tape && row.first === first) return this.#keep(row);
      return misplaced(tape, { first, count });
    });
  }

  #keep(row: ChunkRow): LazyChunk {
    const run = new LazyChunk(row, row);
    this.#runs.set(`${row.first} of ${row.tape}`, run);
    return run;
  }
}

/** The rows that hold a span: the last that starts at or before it, and those that start inside it. */
export function selectChunks(columns: string): string {
  return `SELECT ${columns} FROM savepoint_run WHERE tape = ?1 AND first < ?3 AND first >= coalesce(
    (SELECT max(first) FROM savepoint_run WHERE tape = ?1 AND first <= ?2), ?2) ORDER BY first`;
}

function misplaced(tape: string, place: { first: number; count: number }): LazyChunk {
  return new LazyChunk(place, undefined, `the index of tape ${tape} is damaged at item ${place.first}`);
}

const SPAN = selectChunks("id, first, count");
const LONG_SPAN = selectChunks("tape, first, count, codec, sum, head, body");
const RUN = "SELECT tape, first, count, codec, sum, head, body FROM savepoint_run WHERE id = ?";

export function spanArguments({ tape, start, count }: ItemSpan): [string, number, number] {
  return [tape, start, start + count];
}
