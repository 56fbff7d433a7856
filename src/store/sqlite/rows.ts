/** The rows of the tables: what a record's is, how large those of runs are meant to be, and how one is added. */
import type { Connection } from "./connection.js";
import type { RunRow } from "./run-codec.js";

/** A row of `savepoint_record`. */
export interface RecordRow {
  readonly key: string;
  readonly sum: Uint8Array;
  readonly refs: string;
  readonly value: string;
}

/** A run is full with this many items, or with this many bytes. */
export const RUN_ITEMS = 64;
export const RUN_BYTES = 65_536;

export function insertRun(connection: Connection, row: RunRow): void {
  connection.run(
    "INSERT INTO savepoint_run (tape, first, count, codec, sum, head, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
    row.tape,
    row.first,
    row.count,
    row.codec,
    row.sum,
    row.head,
    row.body,
  );
}
