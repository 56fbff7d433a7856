/** Schemas that tests have to themselves. */
import pg from "pg";
import { inject } from "vitest";
import { openStore } from "../../src/store.js";
import { borrowSchema, newSchemaName, returnSchema } from "./schema-pool.js";

/** The URL of a store that does not exist yet. Remove it with `dropSchema`. */
export function newPostgresUrl(): string {
  return urlOf(newSchemaName());
}

/**
 * The URL of an empty store that is there already: quicker, for tests that are not about how a store is created. Give it
 * back with `returnMigratedUrl`.
 */
export async function borrowMigratedUrl(): Promise<string> {
  const name = await borrowSchema(connect(), inject("schemaPool"), async (fresh) => {
    await (await openStore(urlOf(fresh), { durability: "process" })).close();
  });
  return urlOf(name);
}

/** Gives a store back with whatever is in it. Everything that was opened on it must be closed. */
export async function returnMigratedUrl(url: string): Promise<void> {
  await returnSchema(connect(), inject("schemaPool"), split(url).name);
}

/** Runs a statement behind a store's back. @param url that of the store: `{schema}` in the statement stands for its schema */
export async function query<Row>(url: string, sql: string, values: unknown[] = []): Promise<Row[]> {
  const { base, name } = split(url);
  const client = new pg.Client({ connectionString: base });
  await client.connect();
  try {
    return (await client.query(sql.replaceAll("{schema}", `"${name}"`), values)).rows as Row[];
  } finally {
    await client.end();
  }
}

/** Removes a store with everything in it. */
export async function dropSchema(url: string): Promise<void> {
  await connect().query(`DROP SCHEMA IF EXISTS "${split(url).name}" CASCADE`);
}

/** Removes all stores in schemas whose names begin so. */
export async function dropSchemas(prefix: string): Promise<void> {
  const client = connect();
  const { rows } = await client.query("SELECT nspname AS name FROM pg_namespace WHERE starts_with(nspname, $1)", [
    prefix,
  ]);
  for (const { name } of rows as { name: string }[]) await client.query(`DROP SCHEMA "${name}" CASCADE`);
}

let kept: pg.Pool | undefined;

/** A connection for what is done between tests. It is kept, and keeps no process running. */
function connect(): pg.Pool {
  if (!kept) {
    kept = new pg.Pool({
      connectionString: inject("postgresUrl"),
      max: 1,
      idleTimeoutMillis: 0,
      allowExitOnIdle: true,
    });
    // One that was cut while it was idle is replaced when it is next needed.
    kept.on("error", () => {});
  }
  return kept;
}

function urlOf(schema: string): string {
  const url = new URL(inject("postgresUrl"));
  url.searchParams.set("schema", schema);
  return url.href;
}

function split(url: string): { base: string; name: string } {
  const parsed = new URL(url);
  const name = parsed.searchParams.get("schema") ?? "savepoint";
  parsed.searchParams.delete("schema");
  return { base: parsed.href, name };
}
