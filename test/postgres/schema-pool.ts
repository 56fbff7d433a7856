/**
 * Migrated schemas that tests use one after another, because creating the tables takes longer than emptying them.
 *
 * A schema that comes back is emptied and gets a new name, so a statement that a killed process has still sent finds no
 * such schema, as if it had been dropped. Statements under way are waited for. A schema whose definition was changed (a
 * trigger, a privilege, the tables of the search index, statistics for the planner) is dropped.
 *
 * The pool lives in the database, because every test file is a process of its own.
 */
import { randomBytes } from "node:crypto";

/** A connection, or a pool of them. */
interface Connection {
  query(sql: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
}

/** Everything in a schema but the rows of its tables, as text in which the schema has no name. */
const shapeFunction = (pool: string): string => `
CREATE FUNCTION ${pool}.shape(name text) RETURNS text LANGUAGE plpgsql AS $body$
DECLARE
  space oid := (SELECT oid FROM pg_namespace WHERE nspname = name);
  meta text;
BEGIN
  IF to_regclass(format('%I.savepoint_meta', name)) IS NULL THEN RETURN NULL; END IF;
  EXECUTE format('SELECT string_agg(m::text, chr(10) ORDER BY m::text) FROM %I.savepoint_meta m', name) INTO meta;
  RETURN concat_ws(chr(10), meta, replace((
    SELECT string_agg(line, chr(10) ORDER BY line) FROM (
      SELECT concat_ws(' ', 'schema', nspowner, nspacl) FROM pg_namespace WHERE oid = space
      UNION ALL
      SELECT concat_ws(' ', 'relation', relname, relkind, relowner, relpersistence, relreplident, reloptions, relacl,
        relhasrules, relrowsecurity, relforcerowsecurity) FROM pg_class WHERE relnamespace = space
      UNION ALL
      SELECT concat_ws(' ', 'column', c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod),
        a.attnotnull, a.attcollation, a.attstorage, a.attcompression, a.attidentity, a.attgenerated, a.attisdropped,
        a.attoptions, a.attacl, pg_get_expr(d.adbin, d.adrelid))
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
        WHERE c.relnamespace = space AND a.attnum > 0
      UNION ALL
      SELECT concat_ws(' ', 'constraint', conname, conrelid::regclass, convalidated, pg_get_constraintdef(oid))
        FROM pg_constraint WHERE connamespace = space
      UNION ALL
      SELECT concat_ws(' ', 'index', i.indisvalid, i.indisclustered, pg_get_indexdef(i.indexrelid))
        FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid WHERE c.relnamespace = space
      UNION ALL
      SELECT concat_ws(' ', 'trigger', t.tgenabled, pg_get_triggerdef(t.oid))
        FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE c.relnamespace = space
      UNION ALL
      SELECT concat_ws(' ', 'function', proowner, proacl, prokind,
        CASE WHEN prokind IN ('f', 'p') THEN pg_get_functiondef(oid) END) FROM pg_proc WHERE pronamespace = space
      UNION ALL
      SELECT concat_ws(' ', 'type', typname, typtype, typowner) FROM pg_type WHERE typnamespace = space
      UNION ALL
      SELECT concat_ws(' ', 'statistics', s.starelid, s.staattnum)
        FROM pg_statistic s JOIN pg_class c ON c.oid = s.starelid WHERE c.relnamespace = space
    ) AS lines (line)), name, 'schema'));
END $body$`;

const poolTable = (pool: string): string => `
CREATE TABLE ${pool}.schema (name text PRIMARY KEY, shape text NOT NULL, borrowed boolean NOT NULL DEFAULT true)`;

/** Whether a schema could be kept: it is in the pool then, under its new name. Otherwise it was dropped. */
const releaseFunction = (pool: string): string => `
CREATE FUNCTION ${pool}.release(old_name text, new_name text) RETURNS boolean LANGUAGE plpgsql AS $body$
DECLARE
  space oid := (SELECT oid FROM pg_namespace WHERE nspname = old_name);
  target regclass;
BEGIN
  FOR target IN SELECT oid FROM pg_class WHERE relnamespace = space AND relkind = 'r' ORDER BY oid LOOP
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', target);
  END LOOP;
  IF ${pool}.shape(old_name) IS DISTINCT FROM (SELECT shape FROM ${pool}.schema WHERE name = old_name) THEN
    EXECUTE format('DROP SCHEMA IF EXISTS %I CASCADE', old_name);
    DELETE FROM ${pool}.schema WHERE name = old_name;
    RETURN false;
  END IF;
  FOR target IN SELECT oid FROM pg_class
    WHERE relnamespace = space AND relkind = 'r' AND relname <> 'savepoint_meta' AND pg_relation_size(oid) > 0
  LOOP
    EXECUTE format('TRUNCATE %s', target);
  END LOOP;
  EXECUTE format('ALTER SCHEMA %I RENAME TO %I', old_name, new_name);
  UPDATE ${pool}.schema SET name = new_name, borrowed = false WHERE name = old_name;
  RETURN true;
END $body$`;

/** A name for a schema that no other has, and that is part of no other name. */
export function newSchemaName(): string {
  return `test_${randomBytes(8).toString("hex")}`;
}

/** Creates an empty pool. @param pool the schema it is in */
export async function createPool(connection: Connection, pool: string): Promise<void> {
  await connection.query(`CREATE SCHEMA ${pool}`);
  for (const part of [poolTable, shapeFunction, releaseFunction]) await connection.query(part(pool));
}

/** Removes the pool and the schemas in it; not those that are borrowed. */
export async function dropPool(connection: Connection, pool: string): Promise<void> {
  const { rows } = await connection.query(`SELECT name FROM ${pool}.schema WHERE NOT borrowed`);
  for (const { name } of rows as { name: string }[]) await connection.query(`DROP SCHEMA "${name}" CASCADE`);
  await connection.query(`DROP SCHEMA ${pool} CASCADE`);
}

/** Takes a schema from the pool. @param migrate creates a store in a new schema of that name, where the pool has none left */
export async function borrowSchema(
  connection: Connection,
  pool: string,
  migrate: (name: string) => Promise<void>,
): Promise<string> {
  const { rows } = await connection.query(
    `UPDATE ${pool}.schema SET borrowed = true
     WHERE name = (SELECT name FROM ${pool}.schema WHERE NOT borrowed LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING name`,
  );
  const [free] = rows as { name: string }[];
  if (free) return free.name;
  const name = newSchemaName();
  await migrate(name);
  await connection.query(`INSERT INTO ${pool}.schema (name, shape) VALUES ($1, ${pool}.shape($1))`, [name]);
  return name;
}

/** Brings a schema back, as new. @returns whether it was kept */
export async function returnSchema(connection: Connection, pool: string, name: string): Promise<boolean> {
  const { rows } = await connection.query(`SELECT ${pool}.release($1, $2) AS kept`, [name, newSchemaName()]);
  return (rows as { kept: boolean }[])[0]?.kept === true;
}
