/** Putting items in the place of those that cannot be read. */
import { planHealing, type ChunkRow } from "../chunks/index.js";
import type { Frame } from "../contract/index.js";
import type { Connection } from "./connection.js";
import { insertChunk } from "./rows.js";

type StoredRun = ChunkRow & { readonly id: number };

/** Returns how many were healed. */
export function healItems(connection: Connection, tape: string, items: ReadonlyMap<number, Frame>): number {
  const rows = connection.rows<StoredRun>(
    "SELECT id, tape, first, count, codec, sum, head, body FROM savepoint_run WHERE tape = ? ORDER BY first",
    tape,
  );
  let count = 0;
  for (const { row, rows: healing, healed } of planHealing(tape, rows, items)) {
    if (row) connection.run("DELETE FROM savepoint_run WHERE id = ?", row.id);
    for (const packed of healing) insertChunk(connection, packed);
    count += healed;
  }
  return count;
}
