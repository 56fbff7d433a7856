/**
 * Applies a group of commits with one plain SQL statement. Its parameters are one list for each kind of record, and one for the
 * items. The statement applies all commits or fails. If it fails, a function (functions.ts) applies each commit separately.
 */
import { compareKeys } from "../contract/index.js";
import { integerArray, textArray } from "./arrays.js";
import { columns, RECORD_ARRAYS, CHUNK_ARRAYS } from "./columns.js";
import type { CommitStatement } from "./fast-commit.js";
import { PUT } from "./functions.js";
import type { CommitPlan, RecordWrite } from "./commit-plan.js";
import { valueSum } from "./rows.js";
import { ADD, DIV, EQ, LE, LT } from "./operators.js";

/**
 * The statement of a group; `undefined` if a commit needs the function, or two commits touch the same record or tape. The
 * statement is not prepared: the server would keep the plan that it made while the tables were small.
 */
export function fastGroup(schema: string, plans: readonly CommitPlan[]): CommitStatement | undefined {
  const touched = new Set<string>();
  const isFree = (name: string): boolean => touched.size < touched.add(name).size;
  for (const { isPlain, records, deleted, notBefore, rows } of plans) {
    const { replaced, checked, put } = records;
    if (!isPlain || checked.length + deleted.length > 0 || notBefore !== undefined) return undefined;
    if (put.some(({ kind }) => kind === PUT.ifAbsent)) return undefined;
    const keys = [...replaced, ...put].map(({ put: { key } }) => `k${key}`);
    if (![...keys, ...rows.map(({ tape }) => `t${tape}`)].every(isFree)) return undefined;
  }
  const replaced = plans.flatMap(({ records }) => records.replaced);
  const putsOf = (wanted: number): RecordWrite[] =>
    plans
      .flatMap(({ records }) => records.put.flatMap(({ put, kind }) => (kind === wanted ? [put] : [])))
      .sort((a, b) => compareKeys(a.key, b.key));
  const rows = plans.flatMap((plan) => plan.rows);
  // All processes use the same order, which makes deadlocks rare.
  replaced.sort((a, b) => compareKeys(a.put.key, b.put.key));
  return {
    sql: writeStatement(schema),
    values: [
      textArray(replaced.map(({ before }) => before)),
      integerArray(replaced.map(({ put, before }) => valueSum(put.key, before))),
      ...columns(
        replaced.map(({ put }) => put),
        RECORD_ARRAYS,
      ),
      ...columns(putsOf(PUT.mustBeNew), RECORD_ARRAYS),
      ...columns(putsOf(PUT.always), RECORD_ARRAYS),
      textArray(rows.map(({ tape }) => tape)),
      ...columns(rows, CHUNK_ARRAYS),
    ],
  };
}

/** If one part changes fewer rows than it should, a division by zero rolls everything back. */
function writeStatement(s: string): string {
  return `WITH replaced AS (
      UPDATE ${s}.savepoint_record r SET sum = w.sum, refs_sum = w.refs_sum, refs = w.refs, value = w.value, reserved = NULL
      FROM unnest($1::pg_catalog.text[], $2::bigint[], $3::pg_catalog.text[], $4::bigint[], $5::bigint[], $6::pg_catalog.text[], $7::pg_catalog.text[])
        AS w (before, sum_before, key, sum, refs_sum, refs, value)
      WHERE r.key ${EQ} w.key AND r.sum ${EQ} w.sum_before AND r.value ${EQ} w.before RETURNING 1
    ), added AS (
      INSERT INTO ${s}.savepoint_record (key, sum, refs_sum, refs, value)
      SELECT * FROM unnest($8::pg_catalog.text[], $9::bigint[], $10::bigint[], $11::pg_catalog.text[], $12::pg_catalog.text[])
      ON CONFLICT DO NOTHING RETURNING 1
    ), put AS (
      INSERT INTO ${s}.savepoint_record (key, sum, refs_sum, refs, value)
      SELECT * FROM unnest($13::pg_catalog.text[], $14::bigint[], $15::bigint[], $16::pg_catalog.text[], $17::pg_catalog.text[])
      ON CONFLICT (key) DO UPDATE
        SET sum = excluded.sum, refs_sum = excluded.refs_sum, refs = excluded.refs, value = excluded.value, reserved = NULL
    ), items AS (
      INSERT INTO ${s}.savepoint_chunk (tape, first, count, codec, sum, head, body)
      SELECT w.* FROM unnest($18::pg_catalog.text[], $19::bigint[], $20::bigint[], $21::bigint[], $22::bigint[], $23::pg_catalog.bytea[], $24::pg_catalog.bytea[])
        AS w (tape, first, count, codec, sum, head, body)
      WHERE coalesce((SELECT x.first ${ADD} x.count FROM ${s}.savepoint_chunk x WHERE x.tape ${EQ} w.tape
        AND x.first ${LT} (w.first ${ADD} w.count) ORDER BY x.first DESC LIMIT 1), 0) ${LE} w.first
      ON CONFLICT DO NOTHING RETURNING 1
    ) SELECT 1 ${DIV} ((SELECT pg_catalog.count(*) FROM replaced) ${EQ} pg_catalog.cardinality($3)
      AND (SELECT pg_catalog.count(*) FROM added) ${EQ} pg_catalog.cardinality($8)
      AND (SELECT pg_catalog.count(*) FROM items) ${EQ} pg_catalog.cardinality($18))::integer AS done`;
}
