/** Damages what a SQLite store has stored, through a connection of its own. */
import type { Damage, DamageTarget } from "savepoint/testing";
import type { SqliteDatabase, SqliteValue } from "../../src/store/index.js";

export function damageSqlite(database: SqliteDatabase, target: DamageTarget, how: Damage): void {
  switch (target.kind) {
    case "record":
      return damageCell(database, "savepoint_record", "value", how, "key = ?", target.key);
    case "item":
      return damageCell(database, "savepoint_run", "body", how, "tape = ? AND first = ?", target.tape, target.item);
    case "refs":
      return damageCell(database, "savepoint_run", "head", how, "tape = ? AND first = ?", target.tape, target.item);
    case "blob":
      return damageCell(database, "savepoint_blob", "body", how, "hash = ?", target.hash);
  }
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
