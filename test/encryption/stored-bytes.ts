import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { query } from "../postgres/schemas.js";

/** The files below a folder that contain a string. */
export function onDisk(folder: string, text: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile() && readFileSync(path).includes(text));
}

/** Everything that the tables of a PostgreSQL store contain. */
export async function rowsOf(url: string): Promise<string> {
  const names = await query<{ name: string }>(
    url,
    "SELECT relname AS name FROM pg_class WHERE relnamespace = '{schema}'::regnamespace AND relkind IN ('r', 'm')",
  );
  const texts: string[] = [];
  for (const { name } of names) {
    const rows = await query<Record<string, unknown>>(url, `SELECT * FROM {schema}."${name}"`);
    for (const row of rows) {
      for (const value of Object.values(row))
        texts.push(Buffer.isBuffer(value) ? value.toString("latin1") : String(value));
    }
  }
  expect(names.length).toBeGreaterThan(3);
  return texts.join("\n");
}
