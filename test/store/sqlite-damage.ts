/** Damages what a SQLite store has stored, through a connection of its own. */
import type { Damage, DamageTarget } from "savepoint/testing";
import type { SqliteDatabase, SqliteValue } from "../../src/store.js";
import { SqliteConnection } from "../../src/store/sqlite/connection.js";
import { type ChunkRow, unpackChunk } from "../../src/store/chunks/chunk-codec.js";
import { SqlitePacker } from "../../src/store/sqlite/packer.js";
import { WriteBuffer } from "../../src/store/sqlite/write-buffer.js";

export function damageSqlite(database: SqliteDatabase, target: DamageTarget, how: Damage): void {
  foldTail(database);
  if (target.kind === "item" && how === "flip" && flipPacked(database, target.tape, target.item)) return;
  switch (target.kind) {
    case "record":
      return damageCell(database, "savepoint_record", "value", how, "key = ?", target.key);
    case "item":
      return damageCell(database, "savepoint_chunk", "body", how, "tape = ? AND first = ?", target.tape, target.item);
    case "refs":
      return damageCell(database, "savepoint_chunk", "head", how, "tape = ? AND first = ?", target.tape, target.item);
    case "blob":
      return damageCell(database, "savepoint_blob", "body", how, "hash = ?", target.hash);
  }
}

/** Writes the commits that wait to the tables, where they can be damaged one by one. */
function foldTail(database: SqliteDatabase): void {
  const connection = new SqliteConnection(database, "sqlite: (damaged)", false, {});
  database.exec("BEGIN IMMEDIATE");
  new WriteBuffer(connection, new SqlitePacker(connection, {}), {}, false).flush();
  database.exec("COMMIT");
}

/** Flips a bit in an item that is packed with others; `false` where it stands alone. */
function flipPacked(database: SqliteDatabase, tape: string, item: number): boolean {
  const row = database
    .prepare("SELECT * FROM savepoint_chunk WHERE tape = ? AND first <= ? ORDER BY first DESC LIMIT 1")
    .get(tape, item) as (ChunkRow & { id: number }) | undefined;
  const items = row && row.count > 1 ? unpackChunk(row) : { unreadable: "" };
  if (!row || "unreadable" in items) return false;
  const lengths = items.map((frame) => ("json" in frame ? Buffer.byteLength(frame.json) : 0));
  const start = lengths.slice(0, item - row.first).reduce((sum, length) => sum + length, 0);
  const body = Uint8Array.from(row.body);
  const middle = start + ((lengths[item - row.first] as number) >> 1);
  body[middle] = (body[middle] as number) ^ 1;
  database.prepare("UPDATE savepoint_chunk SET body = ? WHERE id = ?").run(body, row.id);
  return true;
}

/** The cell must be the only one that `where` finds, so that nothing else is damaged. */
function damageCell(
  database: SqliteDatabase,
  table: string,
  column: string,
  how: Damage,
  where: string,
  ...values: SqliteValue[]
): void {
  const rows = database
    .prepare(`SELECT CAST(${column} AS BLOB) AS bytes, typeof(${column}) AS type FROM ${table} WHERE ${where}`)
    .all(...values) as { bytes: Uint8Array; type: string }[];
  const [row] = rows;
  if (!row || rows.length > 1)
    throw new Error(`${rows.length} rows of ${table} where ${where} (${values.join(", ")}).`);
  if (how === "remove") {
    database.prepare(`DELETE FROM ${table} WHERE ${where}`).run(...values);
    return;
  }
  const damaged = how === "truncate" ? row.bytes.slice(0, row.bytes.length >> 1) : flipped(row.bytes);
  database.prepare(`UPDATE ${table} SET ${column} = CAST(? AS ${row.type}) WHERE ${where}`).run(damaged, ...values);
}

/** One bit in the middle is another one. */
function flipped(bytes: Uint8Array): Uint8Array {
  const copy = Uint8Array.from(bytes);
  const middle = copy.length >> 1;
  copy[middle] = (copy[middle] as number) ^ 1;
  return copy;
}
