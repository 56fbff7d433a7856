/** Locks that another session of the server holds: opening waits for them for a bounded time, and names the session. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { randomBytes } from "node:crypto";
import pg from "pg";
import { describe, expect, inject, it } from "vitest";
import type { SavepointError } from "../../src/errors.js";
import { openPostgresStore, openStore } from "../../src/store.js";
import { until } from "../support/until.mjs";
import { query } from "./schemas.js";
import { useUndo } from "./undo.js";

const options = { durability: "process", busyTimeout: 300 } as const;
const { undo, newUrl } = useUndo();

const schemaOf = (url: string): string => `"${new URL(url).searchParams.get("schema")}"`;

/** A session of another program, with an open transaction in which these statements were run. */
async function holdLocks(
  ...statements: string[]
): Promise<{ pid: number; name: string; release: () => Promise<void> }> {
  const name = `other ${randomBytes(4).toString("hex")}`;
  const client = new pg.Client({ connectionString: inject("postgresUrl"), application_name: name });
  await client.connect();
  await client.query("BEGIN");
  for (const statement of statements) await client.query(statement);
  const { rows } = await client.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
  let ended: Promise<void> | undefined;
  const release = (): Promise<void> => (ended ??= client.end());
  undo.push(release);
  return { pid: rows[0]?.pid as number, name, release };
}

const migrationLock = (url: string, seed = 0): string =>
  `SELECT pg_advisory_xact_lock(hashtextextended('savepoint ${schemaOf(url)}', ${seed}))`;

async function failureOf(opening: Promise<unknown>): Promise<SavepointError> {
  return opening.then(
    () => expect.unreachable("It did not fail."),
    (error: SavepointError) => error,
  );
}

function expectNamed(error: SavepointError, { pid, name }: { pid: number; name: string }): void {
  expect(error).toMatchObject({
    code: "BUSY",
    details: {
      holders: [{ pid, application: name, user: "postgres", address: "127.0.0.1", state: "idle in transaction" }],
    },
  });
  expect(error.message).toContain(`backend ${pid} (application "${name}"`);
  expect(error.message).toContain(`SELECT pg_terminate_backend(${pid})`);
  expect(error.cause).toMatchObject({ code: "55P03" });
}

const isWaitedFor = async (pid: number): Promise<boolean> =>
  (await query(inject("postgresUrl"), "SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))", [pid]))
    .length > 0;

describe("opening a PostgreSQL store", () => {
  it.each([1, 4])(
    "fails with BUSY and names the session that holds the migration lock, with %i connections",
    async (connections) => {
      const url = newUrl();
      const holder = await holdLocks(migrationLock(url));
      expectNamed(await failureOf(openStore(url, { ...options, connections })), holder);
      await holder.release();
      await (await openStore(url, options)).close();
    },
  );

  it("succeeds when the lock is released while it waits", async () => {
    const url = newUrl();
    const holder = await holdLocks(migrationLock(url));
    const opening = openStore(url, { ...options, busyTimeout: "60s" });
    await until(() => isWaitedFor(holder.pid), "the lock to be waited for");
    await holder.release();
    await (await opening).close();
  });

  it.each([
    ["a schema that is being created", "CREATE SCHEMA {schema}"],
    ["a table that is being created", "CREATE TABLE {schema}.savepoint_meta (key text PRIMARY KEY, value text)"],
  ])("fails with BUSY and names the session of %s in an open transaction", async (_, statement) => {
    const url = newUrl();
    if (statement.startsWith("CREATE TABLE")) await query(url, "CREATE SCHEMA {schema}");
    const holder = await holdLocks(statement.replace("{schema}", schemaOf(url)));
    expectNamed(await failureOf(openStore(url, options)), holder);
  });

  it.each(["savepoint_meta", "savepoint_chunk"])(
    "fails with BUSY and names the session that has locked the table %s",
    async (table) => {
      const url = newUrl();
      await (await openStore(url, options)).close();
      const holder = await holdLocks(`LOCK TABLE ${schemaOf(url)}.${table} IN ACCESS EXCLUSIVE MODE`);
      expectNamed(await failureOf(openStore(url, options)), holder);
      await holder.release();
      await (await openStore(url, options)).close();
    },
  );

  it("can be done after the session of a frozen process was ended as the error advises", async () => {
    const url = newUrl();
    const program = `
      const { default: pg } = await import("pg");
      const { openPostgresStore } = await import(${JSON.stringify(new URL("../../dist/store.js", import.meta.url).href)});
      const pool = new pg.Pool({ connectionString: process.argv[1], application_name: "frozen" });
      pool.on("connect", (client) => {
        const query = client.query.bind(client);
        client.query = async (...given) => {
          const result = await query(...given);
          if (String(given[0]).includes(".savepoint_chunk (")) process.kill(process.pid, "SIGSTOP");
          return result;
        };
      });
      await openPostgresStore(pool, { schema: process.argv[2] });`;
    const schema = new URL(url).searchParams.get("schema") as string;
    const given = ["--input-type=module", "-e", program, inject("postgresUrl"), schema];
    const child = spawn(process.execPath, given, { stdio: "ignore" });
    undo.push(async () => {
      child.kill("SIGKILL");
      if (child.signalCode === null) await once(child, "exit");
    });
    const key = [`savepoint "${schema}"`];
    const isHeld = `SELECT FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid WHERE l.locktype = 'advisory' AND
      a.application_name = 'frozen' AND a.query LIKE '%.savepoint_chunk (%' AND a.state = 'idle in transaction' AND
      (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended($1, 0)`;
    await until(async () => (await query(url, isHeld, key)).length > 0, "the lock to be held");
    const error = await failureOf(openStore(url, options));
    expect(error).toMatchObject({ code: "BUSY", details: { holders: [{ application: "frozen" }] } });
    const [advice] = /SELECT pg_terminate_backend\(\d+\)/.exec(error.message) ?? [];
    await query(url, advice as string);
    await (await openStore(url, { ...options, busyTimeout: "60s" })).close();
  });

  it("leaves the timeouts of the caller's own connection as they were", async () => {
    const url = newUrl();
    const pool = new pg.Pool({ connectionString: inject("postgresUrl"), max: 1 });
    undo.push(() => pool.end());
    const schema = new URL(url).searchParams.get("schema") as string;
    const store = await openPostgresStore(pool, { ...options, schema });
    await store.texts?.find("x", { below: 9, limit: 9 });
    await store.close();
    for (const setting of ["lock_timeout", "idle_in_transaction_session_timeout"]) {
      expect((await pool.query(`SHOW ${setting}`)).rows).toEqual([{ [setting]: "0" }]);
    }
  });
});

describe("the search index of a PostgreSQL store", () => {
  it("fails with BUSY and names the session that holds the lock under which it is created", async () => {
    const url = newUrl();
    const store = await openStore(url, options);
    undo.push(() => store.close());
    const holder = await holdLocks(migrationLock(url, 1));
    expectNamed(await failureOf(store.texts?.find("x", { below: 9, limit: 9 }) as Promise<unknown>), holder);
    await holder.release();
    expect(await store.texts?.find("x", { below: 9, limit: 9 })).toEqual([]);
  });

  it("fails with BUSY and names the session that updates the same source in an open transaction", async () => {
    const store = await openStore(newUrl(), options);
    undo.push(() => store.close());
    const update = { sources: [{ name: "source", from: 0, texts: ["text"], note: "n", before: undefined }], marks: [] };
    await store.texts?.find("x", { below: 9, limit: 9 });
    const holder = await holdLocks("SELECT pg_advisory_xact_lock(hashtextextended('source', 2))");
    expectNamed(await failureOf(store.texts?.update(update) as Promise<unknown>), holder);
    await holder.release();
    expect(await store.texts?.update(update)).toBe(true);
  });
});
