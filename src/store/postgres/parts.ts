/**
 * The SQL of a commit: each part is one condition, or one change of one row or range.
 *
 * Both printers (printer.ts) use these parts. A counted part must affect exactly one row; otherwise the commit fails.
 */
import type { PostgresValue } from "./driver.js";
import { ADD, CLOCK, EQ, GE, LE, LT, NE } from "./operators.js";
import { ROW_TAG } from "./rows.js";

/** The quoted names of the tables. */
export interface Tables {
  readonly record: string;
  readonly chunk: string;
  readonly blob: string;
}

export function tablesOf(schema: string): Tables {
  const table = (name: string): string => `${schema}.savepoint_${name}`;
  return { record: table("record"), chunk: table("chunk"), blob: table("blob") };
}

/** A part without its values. */
export interface PartKind {
  /** Identifies the SQL in the name of a shape. */
  readonly id: string;
  readonly types: readonly string[];
  /** Whether the part must affect one row. */
  readonly isCounted: boolean;
  /** @param parameters the parameters with their types, in order */
  readonly sql: (tables: Tables, parameters: readonly string[]) => string;
}

export interface Part {
  readonly kind: PartKind;
  readonly values: readonly PostgresValue[];
}

// Type names with their schema: unlike the names of some other types, these are looked up in the search path.
const TEXT = "pg_catalog.text";
const BYTES = "pg_catalog.bytea";

/**
 * An intact record with this value. The tag stands for the value, so the value is not sent; the hash of the row shows whether the
 * row is damaged.
 */
const hasTag = (tag = ""): string => `tag ${EQ} ${tag} AND ${ROW_TAG} ${EQ} ${tag}`;
/** The same without functions that only PostgreSQL has. */
const hasTagAndValue = (tag = "", value = ""): string => `tag ${EQ} ${tag} AND value ${EQ} ${value}`;

const SET = (tag = "", refsSum = "", refs = "", value = ""): string =>
  `tag = ${tag}, refs_sum = ${refsSum}, refs = ${refs}, value = ${value}, reserved = NULL`;
const ROW_TYPES = [BYTES, "integer", TEXT, TEXT];

/** The update waits for a concurrent change of the record, and then checks its new version. */
export const UPDATE: PartKind = {
  id: "u",
  types: [TEXT, BYTES, ...ROW_TYPES],
  isCounted: true,
  sql: ({ record }, [key, before, ...row]) =>
    `UPDATE ${record} SET ${SET(...row)} WHERE key ${EQ} ${key} AND ${hasTag(before)} RETURNING 1`,
};
export const UPDATE_BY_VALUE: PartKind = {
  id: "v",
  types: [TEXT, BYTES, TEXT, ...ROW_TYPES],
  isCounted: true,
  sql: ({ record }, [key, before, value, ...row]) =>
    `UPDATE ${record} SET ${SET(...row)} WHERE key ${EQ} ${key} AND ${hasTagAndValue(before, value)} RETURNING 1`,
};
export const UPDATE_ANY: PartKind = {
  id: "w",
  types: [TEXT, ...ROW_TYPES],
  isCounted: true,
  sql: ({ record }, [key, ...row]) => `UPDATE ${record} SET ${SET(...row)} WHERE key ${EQ} ${key} RETURNING 1`,
};

/** A plain SELECT would not wait for a former owner, who could still write after a takeover. */
export const CHECK: PartKind = {
  id: "c",
  types: [TEXT, BYTES],
  isCounted: true,
  sql: ({ record }, [key, tag]) => `SELECT 1 FROM ${record} WHERE key ${EQ} ${key} AND ${hasTag(tag)} FOR SHARE`,
};
export const CHECK_BY_VALUE: PartKind = {
  id: "d",
  types: [TEXT, BYTES, TEXT],
  isCounted: true,
  sql: ({ record }, [key, tag, value]) =>
    `SELECT 1 FROM ${record} WHERE key ${EQ} ${key} AND ${hasTagAndValue(tag, value)} FOR UPDATE`,
};
export const CHECK_EXISTS: PartKind = {
  id: "e",
  types: [TEXT],
  isCounted: true,
  sql: ({ record }, [key]) => `SELECT 1 FROM ${record} WHERE key ${EQ} ${key} FOR KEY SHARE`,
};
export const CHECK_EXISTS_FOR_UPDATE: PartKind = {
  id: "f",
  types: [TEXT],
  isCounted: true,
  sql: ({ record }, [key]) => `SELECT 1 FROM ${record} WHERE key ${EQ} ${key} FOR UPDATE`,
};
export const CHECK_TIME: PartKind = {
  id: "t",
  types: ["bigint"],
  isCounted: true,
  sql: (_, [time]) => `SELECT 1 WHERE ${time} ${LE} ${CLOCK}`,
};

const INSERT = (record: string, [key, ...row]: readonly string[]): string =>
  `INSERT INTO ${record} (key, tag, refs_sum, refs, value) VALUES (${[key, ...row].join(", ")})`;

export const INSERT_NEW: PartKind = {
  id: "i",
  types: [TEXT, ...ROW_TYPES],
  isCounted: true,
  sql: ({ record }, row) => `${INSERT(record, row)} ON CONFLICT DO NOTHING RETURNING 1`,
};
/** A missing row cannot be locked. Inserting one, and deleting it later, makes other transactions that insert it wait. */
export const INSERT_PLACEHOLDER: PartKind = {
  id: "a",
  types: [TEXT],
  isCounted: true,
  sql: ({ record }, [key = ""]) =>
    `${INSERT(record, [key, "''", "NULL", "''", "''"])} ON CONFLICT DO NOTHING RETURNING 1`,
};
export const INSERT_IF_ABSENT: PartKind = {
  id: "o",
  types: [TEXT, ...ROW_TYPES],
  isCounted: false,
  sql: ({ record }, row) => `${INSERT(record, row)} ON CONFLICT DO NOTHING`,
};
export const UPSERT: PartKind = {
  id: "p",
  types: [TEXT, ...ROW_TYPES],
  isCounted: false,
  sql: ({ record }, row) =>
    `${INSERT(record, row)} ON CONFLICT (key) DO UPDATE SET ${SET("excluded.tag", "excluded.refs_sum", "excluded.refs", "excluded.value")}`,
};

export const REMOVE: PartKind = {
  id: "r",
  types: [TEXT, BYTES],
  isCounted: true,
  sql: ({ record }, [key, tag]) => `DELETE FROM ${record} WHERE key ${EQ} ${key} AND ${hasTag(tag)} RETURNING 1`,
};
export const REMOVE_BY_VALUE: PartKind = {
  id: "s",
  types: [TEXT, BYTES, TEXT],
  isCounted: true,
  sql: ({ record }, [key, tag, value]) =>
    `DELETE FROM ${record} WHERE key ${EQ} ${key} AND ${hasTagAndValue(tag, value)} RETURNING 1`,
};
export const REMOVE_ANY: PartKind = {
  id: "q",
  types: [TEXT],
  isCounted: true,
  sql: ({ record }, [key]) => `DELETE FROM ${record} WHERE key ${EQ} ${key} RETURNING 1`,
};
export const DELETE: PartKind = {
  id: "k",
  types: [`${TEXT}[]`],
  isCounted: false,
  sql: ({ record }, [keys]) => `DELETE FROM ${record} WHERE key ${EQ} ANY (${keys})`,
};
/** Except for the records that the commit checks or writes: they are changed by other parts. */
export const DELETE_RANGE: PartKind = {
  id: "g",
  types: [TEXT, TEXT, `${TEXT}[]`],
  isCounted: false,
  sql: ({ record }, [from, to, except]) =>
    `DELETE FROM ${record} WHERE key ${GE} ${from} AND key ${LT} ${to} AND key ${NE} ALL (${except})`,
};

const CHUNK_TYPES = [TEXT, "bigint", "integer", "smallint", "bigint", BYTES, BYTES];
const INSERT_CHUNK = (chunk: string): string => `INSERT INTO ${chunk} (tape, first, count, codec, sum, head, body)`;

/** Chunks do not overlap, so only the last one that starts before the end of the new items can collide with them. */
const isFree = (chunk: string, tape = "", first = "", count = ""): string =>
  `coalesce((SELECT first ${ADD} count FROM ${chunk} WHERE tape ${EQ} ${tape}
    AND first ${LT} (${first} ${ADD} ${count}) ORDER BY first DESC LIMIT 1), 0) ${LE} ${first}`;

export const CHUNK: PartKind = {
  id: "n",
  types: CHUNK_TYPES,
  isCounted: true,
  sql: ({ chunk }, row) =>
    `${INSERT_CHUNK(chunk)} SELECT ${row.join(", ")} WHERE ${isFree(chunk, ...row)} ON CONFLICT DO NOTHING RETURNING 1`,
};
/** A chunk that can collide only with a chunk of the same first number. The primary key rejects such a collision. */
export const NEXT_CHUNK: PartKind = {
  id: "x",
  types: CHUNK_TYPES,
  isCounted: true,
  sql: ({ chunk }, row) => `${INSERT_CHUNK(chunk)} VALUES (${row.join(", ")}) RETURNING 1`,
};
/**
 * Inserts a {@link CHUNK} or {@link NEXT_CHUNK}. The insert fails with a null count if a factor is null or a {@link CHUNK} is not free.
 *
 * @param factors subqueries that return 1, or nothing if their part has failed
 */
export function chunkWithFactors(kind: PartKind, chunk: string, row: readonly string[], factors: string): string {
  const [tape, first, count, ...rest] = row;
  const counted = `${count}${factors}`;
  const checked = kind === CHUNK ? `CASE WHEN ${isFree(chunk, tape, first, count)} THEN ${counted} END` : counted;
  return `${INSERT_CHUNK(chunk)} VALUES (${[tape, first, checked, ...rest].join(", ")})`;
}

export const USE_BLOB: PartKind = {
  id: "b",
  types: [TEXT, "bigint"],
  isCounted: true,
  sql: ({ blob }, [hash, time]) =>
    `UPDATE ${blob} SET used_at = greatest(used_at, coalesce(${time}, ${CLOCK})) WHERE hash ${EQ} ${hash} RETURNING 1`,
};
/** An acknowledged blob must be readable, so a damaged body is replaced. */
export const STORE_BLOB: PartKind = {
  id: "B",
  types: [TEXT, "bigint", "smallint", BYTES],
  isCounted: false,
  sql: ({ blob }, [hash, time, codec, body]) =>
    `INSERT INTO ${blob} AS b (hash, used_at, codec, body) VALUES (${hash}, coalesce(${time}, ${CLOCK}), ${codec}, ${body})
    ON CONFLICT (hash) DO UPDATE SET used_at = greatest(b.used_at, excluded.used_at), codec = excluded.codec,
      body = CASE WHEN b.body ${EQ} excluded.body THEN b.body ELSE excluded.body END`,
};

/** Sets `synchronous_commit` for this transaction. */
export const SET_SYNC: PartKind = {
  id: "y",
  types: [TEXT],
  isCounted: true,
  sql: (_, [value]) => `SELECT pg_catalog.set_config('synchronous_commit', ${value}, true)`,
};
export const NOTIFY: PartKind = {
  id: "m",
  types: [TEXT, TEXT],
  isCounted: true,
  sql: (_, [channel, name]) => `SELECT pg_catalog.pg_notify(${channel}, ${name})`,
};
