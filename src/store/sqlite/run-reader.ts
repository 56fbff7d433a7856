/** Finding and reading the rows that hold a span of items. */
import type { Frame, ItemSpan, Unreadable } from "../store.js";
import type { Connection } from "./connection.js";
import { type RunRow, unpackRun } from "./run-codec.js";
import { RUN_ITEMS } from "./rows.js";

/** Adds the items of a span, one for one; what is missing or damaged says so. */
export function readSpan(runs: RunCache, { tape, start, count }: ItemSpan, found: (Frame | Unreadable)[]): void {
  const end = start + count;
  let next = start;
  const missing = (until: number): void => {
    for (; next < until; next++) found.push({ unreadable: `item ${next} of tape ${tape} is missing` });
  };
  const rows = runs.of({ tape, start, count });
  for (const [index, { first, count: length, items }] of rows.entries()) {
    if (first + length <= start) continue;
    missing(Math.min(first, end));
    // No row reaches into the next one: a damaged count must not hide what is good.
    const until = Math.min(end, first + length, rows[index + 1]?.first ?? end);
    for (; next < until; next++)
      found.push("unreadable" in items ? items : (items[next - first] as Frame | Unreadable));
  }
  missing(end);
}

interface UnpackedRun {
  readonly first: number;
  readonly count: number;
  readonly items: ReturnType<typeof unpackRun>;
}

/** Spans of one list often lie in one run: that is read and unpacked once. */
export class RunCache {
  readonly #connection: Connection;
  readonly #runs = new Map<string, UnpackedRun>();

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** The rows that hold a span. A long one is read at once; of a short one, only those that were not read before. */
  of(span: ItemSpan): UnpackedRun[] {
    const { tape } = span;
    if (span.count > RUN_ITEMS) {
      const rows = this.#connection.rows<RunRow>(LONG_SPAN, ...runArguments(span));
      return rows.map((row) => (row.tape === tape ? this.#keep(row) : misplaced(tape, row)));
    }
    const places = this.#connection.rows<{ id: number; first: number; count: number }>(SPAN, ...runArguments(span));
    return places.map(({ id, first, count }) => {
      const known = this.#runs.get(`${first} of ${tape}`);
      if (known) return known;
      const row = this.#connection.row<RunRow>(RUN, id);
      // The row's checksum covers the place that the row has. That it is the place that was looked for is another
      // question: a damaged index leads to a row that is whole and belongs elsewhere.
      if (row?.tape === tape && row.first === first) return this.#keep(row);
      return misplaced(tape, { first, count });
    });
  }

  #keep(row: RunRow): UnpackedRun {
    const run = { first: row.first, count: row.count, items: unpackRun(row) };
    this.#runs.set(`${row.first} of ${row.tape}`, run);
    return run;
  }
}

/** The rows that hold a span: the last that starts at or before it, and those that start inside it. */
export function runsOf(columns: string): string {
  return `SELECT ${columns} FROM savepoint_run WHERE tape = ?1 AND first < ?3 AND first >= coalesce(
    (SELECT max(first) FROM savepoint_run WHERE tape = ?1 AND first <= ?2), ?2) ORDER BY first`;
}

function misplaced(tape: string, { first, count }: { first: number; count: number }): UnpackedRun {
  return { first, count, items: { unreadable: `the index of tape ${tape} is damaged at item ${first}` } };
}

const SPAN = runsOf("id, first, count");
const LONG_SPAN = runsOf("tape, first, count, codec, sum, head, body");
const RUN = "SELECT tape, first, count, codec, sum, head, body FROM savepoint_run WHERE id = ?";

export function runArguments({ tape, start, count }: ItemSpan): [string, number, number] {
  return [tape, start, start + count];
}
