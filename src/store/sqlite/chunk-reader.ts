/** Finds the chunks that hold a span of items. */
import { CHUNK_ITEMS, type ChunkPlace, type ChunkRow, LazyChunk } from "../chunks/index.js";
import type { ItemSpan } from "../contract/index.js";
import type { SqliteConnection } from "./connection.js";

/** The chunks of one read. Its spans often lie in the same chunk, which is then read and unpacked once. */
export class ChunkCache {
  readonly #connection: SqliteConnection;
  readonly #chunks = new Map<string, LazyChunk>();
  readonly #tapes = new Set<string>();
  /** The chunk with the last span of each tape. The next span is often in it too. */
  readonly #last = new Map<string, LazyChunk>();

  constructor(connection: SqliteConnection) {
    this.#connection = connection;
  }

  /** The chunks that hold a span. A long span, or the first of its tape, is read with one query; others from the cache. */
  chunksOf(span: ItemSpan): LazyChunk[] {
    const last = this.#last.get(span.tape);
    if (last?.holds(span)) return [last];
    const chunks = this.#find(span);
    const end = chunks.at(-1);
    if (end) this.#last.set(span.tape, end);
    return chunks;
  }

  #find(span: ItemSpan): LazyChunk[] {
    const { tape } = span;
    if (span.count > CHUNK_ITEMS || !this.#tapes.has(tape)) {
      this.#tapes.add(tape);
      const rows = this.#connection.rows<ChunkRow>(SPAN_CHUNKS, ...spanArguments(span));
      return rows.map((row) => (row.tape === tape ? this.#add(row) : misplacedChunk(tape, row)));
    }
    const places = this.#connection.rows<ChunkPlace & { id: number }>(SPAN_PLACES, ...spanArguments(span));
    return places.map(({ id, first, count }) => {
      const cached = this.#chunks.get(`${first} of ${tape}`);
      if (cached) return cached;
      const row = this.#connection.row<ChunkRow>(CHUNK_BY_ID, id);
      // The checksum proves that the row belongs to the place it names, not that this is the place we asked for: a damaged
      // index can lead to an intact row of another place.
      if (row?.tape === tape && row.first === first) return this.#add(row);
      return misplacedChunk(tape, { first, count });
    });
  }

  #add(row: ChunkRow): LazyChunk {
    const chunk = new LazyChunk(row, row);
    this.#chunks.set(`${row.first} of ${row.tape}`, chunk);
    return chunk;
  }
}

/** A query for the chunks that hold a span: the last that starts at or before it, and those that start inside it. */
export function selectChunks(columns: string): string {
  return `SELECT ${columns} FROM savepoint_chunk WHERE tape = ?1 AND first < ?3 AND first >= coalesce(
    (SELECT max(first) FROM savepoint_chunk WHERE tape = ?1 AND first <= ?2), ?2) ORDER BY first`;
}

/** The arguments of a query of {@link selectChunks}. */
export function spanArguments({ tape, start, count }: ItemSpan): [string, number, number] {
  return [tape, start, start + count];
}

const SPAN_PLACES = selectChunks("id, first, count");
const SPAN_CHUNKS = selectChunks("tape, first, count, codec, sum, head, body");
const CHUNK_BY_ID = "SELECT tape, first, count, codec, sum, head, body FROM savepoint_chunk WHERE id = ?";

function misplacedChunk(tape: string, place: ChunkPlace): LazyChunk {
  return new LazyChunk(place, undefined, `the index of tape ${tape} is damaged at item ${place.first}`);
}
