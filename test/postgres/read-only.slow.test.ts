/** PostgreSQL stores that are opened only to be read: with SELECT rights, and on servers that accept no writes. */
import { randomBytes } from "node:crypto";
import { chownSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { expect, inject, it } from "vitest";
import { message, Savepoint } from "../../src/index.js";
import { openPostgresStore } from "../../src/store.js";
import { query } from "./schemas.js";
import { startPostgres } from "./server.mjs";
import { useUndo } from "./undo.js";

const { undo, newUrl } = useUndo();
const readOnly = {
  readOnly: true,
  onBackgroundFailure: ({ message: text }: { message: string }) => expect.unreachable(text),
};

async function fill(url: string): Promise<void> {
  const sp = await Savepoint.open(url, { durability: "process" });
  for (let n = 0; n < 100; n++) await sp.session("s").save({ n, bytes: new Uint8Array(2000).fill(1) });
  await sp.conversations.create({ id: "chat", agent: "a", messages: [message.user("hello")] });
  await sp.close();
}

/** Reads a store in every way that a store offers. */
async function readAll(url: string | pg.Pool, schema?: string): Promise<void> {
  const store = await openPostgresStore(url, { ...readOnly, ...(schema !== undefined && { schema }) });
  const records = await store.list({ from: "", to: "\u{10ffff}" }, { limit: 1000 });
  expect(records.length).toBeGreaterThan(100);
  expect(await store.get([records[0]?.key ?? ""])).toEqual([records[0]]);
  const [tape = ""] = await store.tapes({ from: "", to: "\u{10ffff}" });
  expect(await store.items([{ tape, start: 0, count: 1 }])).toMatchObject([{ json: expect.any(String) as string }]);
  expect(await store.itemRefs({ tape, start: 0, count: 1 })).toEqual(expect.any(Array));
  const [hash = ""] = await store.blobs({ after: "", limit: 1 });
  expect(await store.blob(hash)).toHaveLength(2000);
  expect(await store.now()).toBeGreaterThan(0);
  expect(await store.bytes()).toBeGreaterThan(0);
  expect(await store.bytesOf({ records: [{ from: "", to: "\u{10ffff}" }], tapes: [] })).toBeGreaterThan(0);
  await store.close();
}

/** A user with no rights but those of `grants`. @returns the URL of the store for this user */
async function newReader(url: string, ...grants: string[]): Promise<string> {
  const name = `reader_${randomBytes(6).toString("hex")}`;
  await query(url, `CREATE ROLE ${name} LOGIN PASSWORD 'reader'`);
  undo.push(async () => {
    await query(url, `DROP OWNED BY ${name} CASCADE`);
    await query(url, `DROP ROLE ${name}`);
  });
  for (const grant of grants) await query(url, `GRANT ${grant} TO ${name}`);
  const reader = new URL(url);
  reader.username = name;
  reader.password = "reader";
  return reader.href;
}

it("a user with SELECT rights alone reads a store that is opened read-only", async () => {
  const url = newUrl();
  await fill(url);
  await readAll(await newReader(url, "USAGE ON SCHEMA {schema}", "SELECT ON ALL TABLES IN SCHEMA {schema}"));
});

it("a store on a server that rejects writes is opened read-only", async () => {
  const url = newUrl();
  await fill(url);
  const options = "-c default_transaction_read_only=on";
  const pool = new pg.Pool({ connectionString: inject("postgresUrl"), options });
  undo.push(() => pool.end());
  await readAll(pool, new URL(url).searchParams.get("schema") as string);
});

it("a store on a hot standby is opened read-only", async () => {
  const server = await startPostgres();
  undo.push(() => server.stop());
  await fill(server.url);
  await query(server.url, "CHECKPOINT");
  const data = join(server.folder, "data");
  const signal = join(data, "standby.signal");
  writeFileSync(signal, "");
  const { uid, gid } = statSync(data);
  chownSync(signal, uid, gid);
  await server.crash();
  expect(await query(server.url, "SELECT pg_is_in_recovery() AS standby")).toEqual([{ standby: true }]);
  await readAll(server.url);
});

it("opening a store read-only creates nothing", async () => {
  const url = newUrl();
  await expect(openPostgresStore(url, readOnly)).rejects.toMatchObject({ code: "STORE_NOT_FOUND" });
  const { searchParams } = new URL(url);
  const sql = "SELECT nspname FROM pg_namespace WHERE nspname = $1";
  expect(await query(url, sql, [searchParams.get("schema")])).toEqual([]);
});

it.each([
  [
    "a view",
    [
      "ALTER TABLE {schema}.savepoint_TABLE RENAME TO real",
      "CREATE VIEW {schema}.savepoint_TABLE AS SELECT * FROM {schema}.real WHERE {schema}.trap()",
    ],
  ],
  [
    "a table with row security",
    [
      "ALTER TABLE {schema}.savepoint_TABLE ENABLE ROW LEVEL SECURITY",
      "ALTER TABLE {schema}.savepoint_TABLE FORCE ROW LEVEL SECURITY",
      "CREATE POLICY p ON {schema}.savepoint_TABLE USING ({schema}.trap())",
    ],
  ],
  ["a table with a child", ["CREATE TABLE {schema}.child () INHERITS ({schema}.savepoint_TABLE)"]],
])("code of the owner is not executed when a store with %s is opened read-only", async (_, statements) => {
  for (const table of ["meta", "record", "chunk", "blob"]) {
    const url = newUrl();
    await (await openPostgresStore(url, { durability: "process" })).close();
    await query(url, "CREATE SEQUENCE {schema}.calls");
    await query(
      url,
      `CREATE FUNCTION {schema}.trap() RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
       AS $$ BEGIN PERFORM nextval('{schema}.calls'); RETURN true; END $$`,
    );
    for (const statement of statements) await query(url, statement.replaceAll("savepoint_TABLE", `savepoint_${table}`));
    const reader = await newReader(url, "USAGE ON SCHEMA {schema}", "SELECT ON ALL TABLES IN SCHEMA {schema}");
    await expect(openPostgresStore(reader, readOnly)).rejects.toMatchObject({ code: "NOT_A_STORE" });
    expect(await query(url, "SELECT is_called FROM {schema}.calls")).toEqual([{ is_called: false }]);
  }
});
