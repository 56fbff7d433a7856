/** Schemas that tests have to themselves. */
import { randomBytes } from "node:crypto";
import pg from "pg";
import { inject } from "vitest";

/** The URL of a store that is not there yet. */
export function newPostgresUrl(): string {
  const url = new URL(inject("postgresUrl"));
  url.searchParams.set("schema", `test_${randomBytes(8).toString("hex")}`);
  return url.href;
}

/** Runs statements behind a store's back. @param url that of the store: `{schema}` in the statement stands for its schema */
export async function query<Row>(url: string, sql: string, values: unknown[] = []): Promise<Row[]> {
  const { base, schema } = split(url);
  const client = new pg.Client({ connectionString: base });
  await client.connect();
  try {
    return (await client.query(sql.replaceAll("{schema}", schema), values)).rows as Row[];
  } finally {
    await client.end();
  }
}

/** Removes a store with everything in it. */
export async function dropSchema(url: string): Promise<void> {
  await query(url, "DROP SCHEMA IF EXISTS {schema} CASCADE");
}

/** Removes all stores in schemas whose names begin so. */
export async function dropSchemas(prefix: string): Promise<void> {
  const url = inject("postgresUrl");
  const names = await query<{ name: string }>(
    url,
    "SELECT nspname AS name FROM pg_namespace WHERE starts_with(nspname, $1)",
    [prefix],
  );
  for (const { name } of names) await query(url, `DROP SCHEMA "${name}" CASCADE`);
}

function split(url: string): { base: string; schema: string } {
  const parsed = new URL(url);
  const schema = parsed.searchParams.get("schema") ?? "savepoint";
  parsed.searchParams.delete("schema");
  return { base: parsed.href, schema: `"${schema}"` };
}
