/** What tests rely on: a schema that others have used is like a new one. */
import { createHash } from "node:crypto";
import pg from "pg";
import { afterEach, beforeEach, describe, expect, inject, it } from "vitest";
import { openStore } from "../../src/store.js";
import { returnSchema } from "./schema-pool.js";
import { borrowMigratedUrl, dropSchema, newPostgresUrl, query } from "./schemas.js";

const nameOf = (url: string): string => new URL(url).searchParams.get("schema") as string;
const options = { durability: "process" } as const;

let [used, fresh] = ["", ""];
let client: pg.Client;

beforeEach(async () => {
  used = await borrowMigratedUrl();
  fresh = newPostgresUrl();
  await (await openStore(fresh, options)).close();
  client = new pg.Client({ connectionString: inject("postgresUrl") });
  await client.connect();
  // Until the end of the transaction, no other test can borrow what is returned in it.
  await client.query("BEGIN");
});

afterEach(async () => {
  await client.query("ROLLBACK");
  await client.end();
  for (const url of [used, fresh]) await dropSchema(url);
});

/** Returns the schema. @returns its new name, or nothing if it was dropped */
async function giveBack(): Promise<string | undefined> {
  const [space] = await rows<{ oid: number }>("SELECT oid FROM pg_namespace WHERE nspname = $1", nameOf(used));
  const kept = await returnSchema(client, inject("schemaPool"), nameOf(used));
  const [after] = await rows<{ name: string }>("SELECT nspname AS name FROM pg_namespace WHERE oid = $1", space?.oid);
  expect(after !== undefined).toBe(kept);
  return after?.name;
}

async function rows<Row>(sql: string, ...values: unknown[]): Promise<Row[]> {
  return (await client.query(sql, values)).rows as Row[];
}

describe("a borrowed schema that is returned", () => {
  it("is empty, has a new name and the definition of a new schema", async () => {
    const store = await openStore(used, options);
    await store.commit({
      puts: [{ key: "record", value: "1" }],
      items: [{ tape: "tape", first: 0, items: [{ json: "1", refs: "" }] }],
      blobs: [{ hash: createHash("sha256").update("blob").digest("hex"), bytes: Buffer.from("blob") }],
    });
    await store.close();
    expect(await query(used, "SELECT key FROM {schema}.savepoint_record")).not.toEqual([]);
    const name = await giveBack();
    expect(name).not.toBe(nameOf(used));
    for (const table of ["savepoint_record", "savepoint_chunk", "savepoint_blob"]) {
      expect(await rows(`SELECT pg_total_relation_size('${nameOf(fresh)}.${table}') AS bytes`)).toEqual(
        await rows(`SELECT pg_total_relation_size('${name}.${table}') AS bytes`),
      );
    }
    const shape = `SELECT ${inject("schemaPool")}.shape($1) AS shape`;
    expect(await rows(shape, name)).toEqual(await rows(shape, nameOf(fresh)));
  });

  it.each([
    [
      "a trigger",
      "CREATE TRIGGER t AFTER INSERT ON {schema}.savepoint_record EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    ],
    ["a privilege", "GRANT SELECT ON {schema}.savepoint_record TO PUBLIC"],
    ["a further table", "CREATE TABLE {schema}.mine (id int)"],
    ["a further index", "CREATE INDEX mine ON {schema}.savepoint_blob (used_at)"],
    ["a column with another type", "ALTER TABLE {schema}.savepoint_record ALTER COLUMN refs_sum TYPE numeric"],
    ["a setting of a table", "ALTER TABLE {schema}.savepoint_record SET (fillfactor = 100)"],
    ["a function", "CREATE FUNCTION {schema}.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'"],
    ["another version", "UPDATE {schema}.savepoint_meta SET value = '99'"],
    [
      "statistics for the planner",
      "INSERT INTO {schema}.savepoint_blob VALUES ('a', 1, 1, ''); ANALYZE {schema}.savepoint_blob",
    ],
    ["no version table", "DROP TABLE {schema}.savepoint_meta"],
  ])("is dropped if it has %s", async (_what, statement) => {
    await query(used, statement);
    expect(await giveBack()).toBeUndefined();
  });

  it("rejects what is still sent to it under its old name", async () => {
    const late = await openStore(used, options);
    await late.commit({ puts: [{ key: "in time", value: "1" }] });
    await giveBack();
    await client.query("COMMIT");
    await expect(late.commit({ puts: [{ key: "late", value: "1" }] })).rejects.toThrow(/does not exist/);
    await late.close();
  });
});
