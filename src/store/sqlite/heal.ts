/** Putting items in the place of those that cannot be read. */
import type { Frame } from "../store.js";
import type { Connection } from "./connection.js";
import { insertRun, RUN_ITEMS } from "./rows.js";
import { packRun, type RunRow, unpackRun } from "./run-codec.js";

type StoredRun = RunRow & { readonly id: number };

/** Returns how many were healed. Those that can be read stay as they are, and so do rows of which none is healed. */
export function healItems(connection: Connection, tape: string, items: ReadonlyMap<number, Frame>): number {
  const missing = new Map(items);
  let healed = 0;
  const rows = connection.rows<StoredRun>(
    "SELECT id, tape, first, count, codec, sum, head, body FROM savepoint_run WHERE tape = ? ORDER BY first",
    tape,
  );
  for (const [index, row] of rows.entries()) {
    // A damaged count must not reach into the next row, nor further than rows do.
    const end = Math.min(row.first + row.count, rows[index + 1]?.first ?? Infinity, row.first + 2 ** 16);
    const found = unpackRun(row);
    const kept = new Map<number, Frame>();
    let ofRow = 0;
    for (let item = row.first; item < end; item++) {
      const good = "unreadable" in found ? undefined : found[item - row.first];
      const healing = items.get(item);
      missing.delete(item);
      if (good && "json" in good) kept.set(item, good);
      else if (healing) {
        kept.set(item, healing);
        ofRow++;
      }
    }
    if (ofRow === 0) continue;
    connection.run("DELETE FROM savepoint_run WHERE id = ?", row.id);
    insertAll(connection, tape, kept);
    healed += ofRow;
  }
  insertAll(connection, tape, missing);
  return healed + missing.size;
}

/** Items that follow each other share a row. */
function insertAll(connection: Connection, tape: string, items: ReadonlyMap<number, Frame>): void {
  let run: Frame[] = [];
  let first = 0;
  const flush = (): void => {
    if (run.length > 0) insertRun(connection, packRun(tape, first, run));
    run = [];
  };
  for (const [item, frame] of [...items].sort(([a], [b]) => a - b)) {
    if (item !== first + run.length || run.length >= RUN_ITEMS) flush();
    if (run.length === 0) first = item;
    run.push(frame);
  }
  flush();
}
