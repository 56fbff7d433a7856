/** Dumps a schema as SQL, and loads it again under another name: the npm package of PostgreSQL has no pg_dump. */
import { query } from "../postgres/schemas.js";

const SCHEMA = "savepoint_golden";

/** The tables of a schema with their rows and indexes, and its functions, as SQL statements one after another. */
export async function dumpSchema(url: string): Promise<string> {
  const name = new URL(url).searchParams.get("schema") as string;
  const [definitions] = await query<{ sql: string[] }>(
    url,
    `SELECT array(
       SELECT format('CREATE TABLE %I.%I (%s)%s', $1::text, c.relname,
           (SELECT string_agg(format('%I %s%s%s', attname, format_type(atttypid, atttypmod),
               CASE WHEN attcollation <> t.typcollation THEN ' COLLATE ' || (SELECT quote_ident(collname) FROM pg_collation WHERE oid = attcollation) ELSE '' END,
               CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END), ', ' ORDER BY attnum)
             FROM pg_attribute JOIN pg_type t ON t.oid = atttypid WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped),
           coalesce(' WITH (' || array_to_string(c.reloptions, ', ') || ')', ''))
       FROM pg_class c WHERE c.relnamespace = $1::regnamespace AND c.relkind = 'r' ORDER BY c.relname
     ) || array(
       SELECT indexdef FROM pg_indexes WHERE schemaname = $1 AND indexname NOT IN (SELECT conname FROM pg_constraint) ORDER BY indexname
     ) || array(
       SELECT format('ALTER TABLE %s ADD CONSTRAINT %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
       FROM pg_constraint WHERE connamespace = $1::regnamespace AND contype IN ('p', 'u', 'c') ORDER BY conname
     ) || array(
       SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = $1::regnamespace ORDER BY proname, oid
     ) AS sql`,
    [name],
  );
  const statements = [...(definitions?.sql ?? [])];
  const tables = await query<{ name: string }>(
    url,
    "SELECT relname AS name FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'r' ORDER BY 1",
    [name],
  );
  for (const table of tables) {
    // The server writes each row as text that it reads again, whatever the types are.
    const rows = await query<{ row: string }>(
      url,
      `SELECT quote_literal(r::text) AS row FROM {schema}."${table.name}" r ORDER BY r::text COLLATE "C"`,
    );
    for (const { row } of rows) {
      const cells = `(${row}::"${name}"."${table.name}").*`;
      statements.push(`INSERT INTO "${name}"."${table.name}" SELECT ${cells}`);
    }
  }
  return statements.map((sql) => `${sql.trim().replaceAll(name, SCHEMA)};\n`).join("");
}

/** Makes the schema of a URL from a dump. */
export async function loadSchema(url: string, dump: string): Promise<void> {
  const name = new URL(url).searchParams.get("schema") as string;
  await query(url, "CREATE SCHEMA {schema}");
  await query(url, dump.replaceAll(SCHEMA, name));
}
