/** Damages what a PostgreSQL store has stored, through a connection of its own. */
import type { Damage, DamageTarget } from "savepoint/testing";
import { type ChunkRow, unpackChunk } from "../../src/store/chunks/chunk-codec.js";
import { query } from "../postgres/schemas.js";

export async function damagePostgres(url: string, target: DamageTarget, how: Damage): Promise<void> {
  if (target.kind === "item" && how === "flip" && (await flipPacked(url, target.tape, target.item))) return;
  switch (target.kind) {
    case "record":
      return damageCell(url, "savepoint_record", "value", true, how, "key = $1", [target.key]);
    case "item":
      return damageCell(url, "savepoint_chunk", "body", false, how, "tape = $1 AND first = $2", [
        target.tape,
        target.item,
      ]);
    case "refs":
      return damageCell(url, "savepoint_chunk", "head", false, how, "tape = $1 AND first = $2", [
        target.tape,
        target.item,
      ]);
    case "blob":
      return damageCell(url, "savepoint_blob", "body", false, how, "hash = $1", [target.hash]);
  }
}

/** Flips a bit in an item that is packed with others; `false` where it stands alone. */
async function flipPacked(url: string, tape: string, item: number): Promise<boolean> {
  const [row] = await query<ChunkRow>(
    url,
    `SELECT tape, first::float8, count, codec, sum::float8, head, body FROM {schema}.savepoint_chunk
     WHERE tape = $1 AND first <= $2 ORDER BY first DESC LIMIT 1`,
    [tape, item],
  );
  const items = row && row.count > 1 ? unpackChunk(row) : { unreadable: "" };
  if (!row || "unreadable" in items) return false;
  const lengths = items.map((frame) => ("json" in frame ? Buffer.byteLength(frame.json) : 0));
  const start = lengths.slice(0, item - row.first).reduce((sum, length) => sum + length, 0);
  const body = Uint8Array.from(row.body);
  const middle = start + ((lengths[item - row.first] as number) >> 1);
  body[middle] = (body[middle] as number) ^ 1;
  await query(url, "UPDATE {schema}.savepoint_chunk SET body = $3 WHERE tape = $1 AND first = $2", [
    tape,
    row.first,
    Buffer.from(body),
  ]);
  return true;
}

/** The cell must be the only one that `where` finds, so that nothing else is damaged. */
async function damageCell(
  url: string,
  table: string,
  column: string,
  isText: boolean,
  how: Damage,
  where: string,
  values: unknown[],
): Promise<void> {
  const cell = isText ? `convert_to(${column}, 'UTF8')` : column;
  const rows = await query<{ bytes: Buffer }>(
    url,
    `SELECT ${cell} AS bytes FROM {schema}.${table} WHERE ${where}`,
    values,
  );
  const [row] = rows;
  if (!row || rows.length > 1)
    throw new Error(`${rows.length} rows of ${table} where ${where} (${values.join(", ")}).`);
  if (how === "remove") {
    await query(url, `DELETE FROM {schema}.${table} WHERE ${where}`, values);
    return;
  }
  const damaged = how === "truncate" ? row.bytes.subarray(0, row.bytes.length >> 1) : flipped(row.bytes);
  const next = `$${values.length + 1}`;
  const value = isText ? `convert_from(${next}, 'UTF8')` : next;
  await query(url, `UPDATE {schema}.${table} SET ${column} = ${value} WHERE ${where}`, [...values, damaged]);
}

/** One bit in the middle is another one. */
function flipped(bytes: Buffer): Buffer {
  const copy = Buffer.from(bytes);
  const middle = copy.length >> 1;
  copy[middle] = (copy[middle] as number) ^ 1;
  return copy;
}
