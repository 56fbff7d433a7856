/**
 * A commit as one plain statement, for the most common kinds of commits: records that are checked, replaced, deleted and
 * added, and items. It costs the server a third of the function in the database. The statement applies the entire commit or
 * fails; if it fails, the function is called, which reports why.
 */
import { createHash } from "node:crypto";
import type { PostgresValue } from "./driver.js";
import { CHECK, CLOCK, PUT } from "./functions.js";
import type { CommitPlan } from "./commit-plan.js";
import { refsSum, valueSum } from "./rows.js";
import { ADD, DIV, EQ, LE, LT, MUL } from "./operators.js";

export interface CommitStatement {
  /** The name of the prepared statement; without one, the statement is not prepared. */
  readonly name?: string;
  readonly sql: string;
  readonly values: PostgresValue[];
}

/** Types that the grammar does not resolve. */
const TEXT = "pg_catalog.text";
const BYTES = "pg_catalog.bytea";

/** Larger commits are too rare for a prepared statement of their own. */
const MAX_RECORDS = 12;
const MAX_CHUNKS = 2;

/** The number of parts of each kind in a statement. Commits of the same shape share a prepared statement. */
interface Shape {
  readonly replaced: number;
  /** One digit for the kind of each check. */
  readonly checks: string;
  readonly deletes: number;
  readonly timed: boolean;
  /** One digit for the kind of each put. */
  readonly puts: string;
  readonly chunks: number;
}

/** Statements by schema and shape, for all stores of this process. */
const statements = new Map<string, Pick<CommitStatement, "name" | "sql">>();

/** The statement of a commit; `undefined` if the commit needs the function. */
export function fastCommit(schema: string, plan: CommitPlan): CommitStatement | undefined {
  const { isPlain, records, deleted, notBefore, rows } = plan;
  const { replaced, checked, put } = records;
  if (!isPlain || replaced.length === 0 || rows.length > MAX_CHUNKS) return undefined;
  if (replaced.length + checked.length + put.length + deleted.length > MAX_RECORDS) return undefined;
  if (checked.some(({ kind }) => kind !== CHECK.value && kind !== CHECK.exists)) return undefined;
  const shape: Shape = {
    replaced: replaced.length,
    checks: checked.map(({ kind }) => kind).join(""),
    deletes: deleted.length,
    timed: notBefore !== undefined,
    puts: put.map(({ kind }) => kind).join(""),
    chunks: rows.length,
  };
  const name = `${schema} ${Object.values(shape).join(" ")}`;
  let statement = statements.get(name);
  if (!statement) {
    const sql = writeStatement(schema, shape);
    statements.set(name, (statement = { name: statementName(sql), sql }));
  }
  const values: PostgresValue[] = [];
  for (const { put: after, before } of replaced) {
    const { key, value, refs } = after;
    values.push(key, before, valueSum(key, before), valueSum(key, value), refsSum(key, refs), refs, value);
  }
  for (const { key, value = "", kind } of checked) {
    if (kind === CHECK.exists) values.push(key);
    else values.push(key, valueSum(key, value), value);
  }
  values.push(...deleted);
  if (notBefore !== undefined) values.push(notBefore);
  for (const { put: after } of put) {
    const { key, value, refs } = after;
    values.push(key, valueSum(key, value), refsSum(key, refs), refs, value);
  }
  for (const { tape, first, count, codec, sum, head, body } of rows) {
    values.push(tape, first, count, codec, sum, head, body);
  }
  return { ...statement, values };
}

/** A name for a prepared statement that is unique on a shared connection. */
export function statementName(sql: string): string {
  return `savepoint_${createHash("sha256").update(sql).digest("hex").slice(0, 16)}`;
}

/**
 * Writes the statement of a shape. If one part changes fewer rows than it should, the last part fails, which rolls everything
 * back: the count of the last chunk becomes null, or, without chunks, a division by zero fails.
 */
function writeStatement(schema: string, { replaced, checks, deletes, timed, puts, chunks }: Shape): string {
  const records = `${schema}.savepoint_record`;
  const parts: string[] = [];
  const needed: string[] = [];
  let next = 1;
  const parameters = (...types: string[]): string[] => types.map((type) => `$${next++}::${type}`);
  const add = (sql: string, isNeeded: boolean): void => {
    const name = `p${parts.length}`;
    parts.push(`${name} AS (${sql})`);
    if (isNeeded) needed.push(name);
  };
  for (let index = 0; index < replaced; index++) {
    const [key, before, sumBefore, sum, refsSumAfter, refs, value] = parameters(
      TEXT,
      TEXT,
      "bigint",
      "bigint",
      "bigint",
      TEXT,
      TEXT,
    );
    add(
      `UPDATE ${records} SET sum = ${sum}, refs_sum = ${refsSumAfter}, refs = ${refs}, value = ${value},
        reserved = NULL WHERE key ${EQ} ${key} AND sum ${EQ} ${sumBefore} AND value ${EQ} ${before} RETURNING 1`,
      true,
    );
  }
  for (const kind of checks) {
    const [key] = parameters(TEXT);
    if (Number(kind) === CHECK.exists) add(`SELECT 1 FROM ${records} WHERE key ${EQ} ${key} FOR KEY SHARE`, true);
    else {
      const [sum, value] = parameters("bigint", TEXT);
      add(
        `SELECT 1 FROM ${records} WHERE key ${EQ} ${key} AND sum ${EQ} ${sum} AND value ${EQ} ${value} FOR SHARE`,
        true,
      );
    }
  }
  // This statement does not see records that were added while one of its checks waited. If there is nothing to delete, the
  // function checks again.
  for (let index = 0; index < deletes; index++)
    add(`DELETE FROM ${records} WHERE key ${EQ} ${parameters(TEXT)[0]} RETURNING 1`, true);
  if (timed) add(`SELECT 1 WHERE ${parameters("bigint")[0]} ${LE} ${CLOCK}`, true);
  for (const kind of puts) {
    const values = parameters(TEXT, "bigint", "bigint", TEXT, TEXT).join(", ");
    const insert = `INSERT INTO ${records} (key, sum, refs_sum, refs, value) VALUES (${values})`;
    const replace =
      "DO UPDATE SET sum = excluded.sum, refs_sum = excluded.refs_sum, refs = excluded.refs, value = excluded.value, reserved = NULL";
    if (Number(kind) === PUT.always) add(`${insert} ON CONFLICT (key) ${replace}`, false);
    else add(`${insert} ON CONFLICT DO NOTHING RETURNING 1`, Number(kind) === PUT.mustBeNew);
  }
  for (let index = 0; index < chunks; index++) {
    const values = parameters(TEXT, "bigint", "integer", "smallint", "bigint", BYTES, BYTES);
    const [tape, first, count, ...rest] = values;
    const insert = `INSERT INTO ${schema}.savepoint_chunk (tape, first, count, codec, sum, head, body)`;
    const isFree = `coalesce((SELECT first ${ADD} count FROM ${schema}.savepoint_chunk WHERE tape ${EQ} ${tape}
      AND first ${LT} (${first} ${ADD} ${count}) ORDER BY first DESC LIMIT 1), 0) ${LE} ${first}`;
    if (index < chunks - 1) {
      add(`${insert} SELECT ${values.join(", ")} WHERE ${isFree} ON CONFLICT DO NOTHING RETURNING 1`, true);
      continue;
    }
    const others = needed.map((name) => ` ${MUL} (SELECT 1 FROM ${name})`).join("");
    const counted = `CASE WHEN ${isFree} THEN ${count}${others} END`;
    return `WITH ${parts.join(", ")} ${insert} VALUES (${[tape, first, counted, ...rest].join(", ")})`;
  }
  const counts = needed.map((name) => `(SELECT pg_catalog.count(*) FROM ${name})`);
  return `WITH ${parts.join(", ")} SELECT 1 ${DIV} (${counts.join(` ${MUL} `)}) AS done`;
}
