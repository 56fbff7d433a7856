/**
 * Operators of the server, written so that the search path does not matter.
 *
 * A plain `=` is resolved through the search path of the connection, which a pool, a role or a database can set to anything:
 * another role could define an operator that matches better or comes first, and it would be executed with the privileges of this
 * user. So statements name functions, types, catalogs and operators with their schema. What the grammar itself resolves needs
 * none: `coalesce`, `greatest`, `extract`, `bigint`, `integer`, `smallint`, `boolean`, and `unnest` of several arrays. Avoid
 * `IN`, `LIKE`, `IS DISTINCT FROM` and `CASE x WHEN`, which contain plain operators.
 *
 * Operators written in this way all have the same precedence: use parentheses.
 */
export const EQ = "OPERATOR(pg_catalog.=)";
export const NE = "OPERATOR(pg_catalog.<>)";
export const LT = "OPERATOR(pg_catalog.<)";
export const LE = "OPERATOR(pg_catalog.<=)";
export const GT = "OPERATOR(pg_catalog.>)";
export const GE = "OPERATOR(pg_catalog.>=)";
export const ADD = "OPERATOR(pg_catalog.+)";
export const MUL = "OPERATOR(pg_catalog.*)";
export const DIV = "OPERATOR(pg_catalog./)";
export const CONCAT = "OPERATOR(pg_catalog.||)";
export const LIKE = "OPERATOR(pg_catalog.~~)";

/** The time of the server, in milliseconds since 1970. */
export const CLOCK = `(extract(epoch FROM pg_catalog.clock_timestamp()) ${MUL} 1000)::bigint`;
