/** A PostgreSQL store calls nothing that another role has put into a schema of the search path. */
import { randomBytes } from "node:crypto";
import pg from "pg";
import { expect, inject, it } from "vitest";
import { defineAgent, message, Savepoint } from "../../src/index.js";
import { openPostgresStore } from "../../src/store.js";
import { useUndo } from "../postgres/undo.js";
import { until } from "../support/until.mjs";

const { undo } = useUndo();

/**
 * Shadows every function, operator and type of the server that SQL can name, and the catalogs. A shadow counts its call in a
 * sequence, because that is not rolled back, and fails.
 */
const TRAPS = `
CREATE SEQUENCE public.calls;
CREATE FUNCTION public.trap() RETURNS boolean LANGUAGE plpgsql AS $f$
BEGIN
  PERFORM pg_catalog.nextval('public.calls');
  RAISE EXCEPTION 'a trap was called: %', pg_catalog.current_query();
END $f$;
DO $do$
DECLARE
  f record;
BEGIN
  FOR f IN SELECT p.oid, p.proname, pg_get_function_identity_arguments(p.oid) AS args, pg_get_function_result(p.oid) AS result
    FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f'
      AND p.prorettype NOT IN ('internal'::regtype, 'trigger'::regtype, 'event_trigger'::regtype, 'cstring'::regtype)
      AND NOT p.proargtypes::oid[] && ARRAY['internal'::regtype, 'cstring'::regtype, '"any"'::regtype]::oid[]
  LOOP
    BEGIN
      EXECUTE format('CREATE FUNCTION public.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L', f.proname, f.args, f.result,
        'BEGIN PERFORM public.trap(); END');
    EXCEPTION WHEN OTHERS THEN NULL;
    END;
  END LOOP;
  FOR f IN SELECT o.oprname, o.oprleft::regtype AS l, o.oprright::regtype AS r, o.oprcode::regproc::text AS code,
      o.oprcode::oid::regprocedure AS signature FROM pg_operator o WHERE o.oprnamespace = 'pg_catalog'::regnamespace
  LOOP
    BEGIN
      EXECUTE format('CREATE OPERATOR public.%s (FUNCTION = public.%I%s, RIGHTARG = %s)', f.oprname, f.code,
        CASE WHEN f.l <> 0 THEN format(', LEFTARG = %s', f.l) ELSE '' END, f.r);
    EXCEPTION WHEN OTHERS THEN NULL;
    END;
  END LOOP;
END $do$;
-- These match the arguments better than the functions of the server, which come first in the default search path.
CREATE FUNCTION public.hashtextextended(text, integer) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN PERFORM public.trap(); END';
CREATE FUNCTION public.pg_advisory_xact_lock(numeric) RETURNS void LANGUAGE plpgsql AS 'BEGIN PERFORM public.trap(); END';
`;

/** Traps that would break the statements above, once they exist. */
const LATE_TRAPS = `
CREATE FUNCTION public.step(s pg_catalog.int8) RETURNS pg_catalog.int8 LANGUAGE plpgsql AS 'BEGIN PERFORM public.trap(); END';
CREATE FUNCTION public.step(s pg_catalog.int8, v pg_catalog.int8) RETURNS pg_catalog.int8 LANGUAGE plpgsql AS 'BEGIN PERFORM public.trap(); END';
CREATE FUNCTION public.step(s pg_catalog.text[], v pg_catalog.text) RETURNS pg_catalog.text[] LANGUAGE plpgsql AS 'BEGIN PERFORM public.trap(); END';
CREATE AGGREGATE public.count(*) (SFUNC = public.step, STYPE = pg_catalog.int8);
CREATE AGGREGATE public.max(pg_catalog.int8) (SFUNC = public.step, STYPE = pg_catalog.int8);
CREATE AGGREGATE public.sum(pg_catalog.int8) (SFUNC = public.step, STYPE = pg_catalog.int8);
CREATE AGGREGATE public.array_agg(pg_catalog.text) (SFUNC = public.step, STYPE = pg_catalog.text[]);
CREATE VIEW public.pg_class AS SELECT c.* FROM pg_catalog.pg_class c WHERE public.trap();
CREATE VIEW public.pg_namespace AS SELECT c.* FROM pg_catalog.pg_namespace c WHERE public.trap();
CREATE VIEW public.pg_database AS SELECT c.* FROM pg_catalog.pg_database c WHERE public.trap();
CREATE VIEW public.pg_locks AS SELECT c.* FROM pg_catalog.pg_locks c WHERE public.trap();
CREATE VIEW public.pg_opclass AS SELECT c.* FROM pg_catalog.pg_opclass c WHERE public.trap();
CREATE VIEW public.pg_stat_activity AS SELECT c.* FROM pg_catalog.pg_stat_activity c WHERE public.trap();
CREATE DOMAIN public.text AS pg_catalog.text CHECK (public.trap());
CREATE DOMAIN public.bytea AS pg_catalog.bytea CHECK (public.trap());
CREATE DOMAIN public.json AS pg_catalog.json CHECK (public.trap());
`;

/** A database whose schema `public` belongs to an attacker. @returns its URL, and the number of calls of traps */
async function newTrappedDatabase(): Promise<{ url: string; calls: () => Promise<number> }> {
  const id = randomBytes(6).toString("hex");
  const [database, attacker] = [`trapped_${id}`, `attacker_${id}`];
  const admin = async (...statements: string[]): Promise<void> => {
    const client = new pg.Client({ connectionString: inject("postgresUrl") });
    await client.connect();
    for (const statement of statements) await client.query(statement);
    await client.end();
  };
  await admin(`CREATE ROLE ${attacker}`, `CREATE DATABASE ${database} ENCODING 'UTF8' TEMPLATE template0`);
  undo.push(async () => {
    // A connection that is still ending would report that it was terminated.
    const isUnused = `SELECT 1 / (count(*) = 0)::int FROM pg_stat_activity WHERE datname = '${database}'`;
    await until(
      () =>
        admin(isUnused).then(
          () => true,
          () => false,
        ),
      "the end of all connections",
    );
    await admin(`DROP DATABASE ${database}`, `DROP ROLE ${attacker}`);
  });
  const url = new URL(inject("postgresUrl"));
  url.pathname = `/${database}`;
  const client = new pg.Client({ connectionString: url.href });
  await client.connect();
  undo.push(() => client.end());
  await client.query("CREATE EXTENSION IF NOT EXISTS pg_trgm SCHEMA public");
  await client.query(`ALTER SCHEMA public OWNER TO ${attacker}`);
  await client.query(`SET ROLE ${attacker}`);
  await client.query(TRAPS);
  await client.query(LATE_TRAPS);
  await client.query("SET search_path = pg_catalog");
  const { rows } = await client.query(
    "SELECT count(*)::int AS n FROM pg_operator WHERE oprnamespace = 'public'::regnamespace",
  );
  expect((rows[0] as { n: number }).n).toBeGreaterThan(500);
  return {
    url: url.href,
    async calls() {
      const answer = await client.query("SELECT is_called, last_value::int FROM public.calls");
      const { is_called: isCalled, last_value: last } = answer.rows[0] as { is_called: boolean; last_value: number };
      return isCalled ? last : 0;
    },
  };
}

function newPool(url: string, searchPath: string | undefined, max = 4): pg.Pool {
  const pool = new pg.Pool({
    connectionString: url,
    max,
    ...(searchPath !== undefined && { options: `-c search_path=${searchPath}` }),
  });
  undo.push(() => pool.end());
  return pool;
}

/** Uses everything that sends statements to the server. */
async function useStore(pool: pg.Pool): Promise<void> {
  const sp = await Savepoint.open(pool, { durability: "process" });
  await Promise.all(
    Array.from({ length: 8 }, async (_, id) => {
      const session = sp.session(`s${id}`, { agent: "support" });
      await session.save({ messages: [] });
      for (let n = 0; n < 40; n++) await session.append("/messages", [message.user(`message ${n}`)]);
      await session.save({ image: new Uint8Array(5000).fill(id), messages: [message.user("found")] });
    }),
  );
  const chat = await sp.conversations.create({ agent: "support", title: "A title" });
  await sp.conversations.append(chat.id, [message.user("needle in a haystack")]);
  expect(await sp.search("needle")).toHaveLength(1);
  expect(await sp.search("found")).toHaveLength(8);
  await sp.conversations.append(chat.id, [message.user("needle")]);
  expect(await sp.search("needle")).toHaveLength(1);
  const agent = defineAgent({
    name: "worker",
    initial: (n: number) => n,
    async step(run) {
      run.state = await run.effect("add", () => run.state + 1);
      return run.state < 3 ? undefined : run.complete(run.state);
    },
  });
  expect(await sp.run(agent, { session: "run", input: 0 })).toMatchObject({ status: "completed", output: 3 });
  await sp.enqueue(agent, { session: "queued", input: 1 });
  const worker = sp.worker([agent]);
  await worker.start();
  for await (const event of sp.watch("queued")) if (event.type === "status" && event.status === "completed") break;
  await worker.stop();
  expect(await sp.session("s1").latest()).toMatchObject({ state: { messages: [{ content: "found" }] } });
  await sp.session("s1").history({ limit: 100 }).all();
  await sp.stats();
  await sp.stats({ agent: "support" });
  expect(await sp.verify({ deep: true })).toMatchObject({ ok: true });
  await sp.prune({ keepLast: 2 });
  await sp.sessions.delete("s2");
  await sp.compact();
  await sp.repair();
  await sp.session("s3").save({ durable: true });
  await sp.close();
}

it.each([
  ["first, as a pool can set it", "public,pg_catalog"],
  ["after the server's own, as it is by default", undefined],
])("functions, operators, types and catalogs of another role are never used if they come %s", async (_, searchPath) => {
  const { url, calls } = await newTrappedDatabase();
  await useStore(newPool(url, searchPath));
  // With the durability of the server, commits are other statements.
  const durable = await Savepoint.open(newPool(url, searchPath), { onBackgroundFailure: () => {} });
  const groups = Array.from({ length: 30 }, (_value, id) => durable.session(`d${id}`).save({ id }));
  await Promise.all(groups);
  for (let n = 0; n < 3; n++) await Promise.all(groups.map((__, id) => durable.session(`d${id}`).save({ id, n })));
  await durable.session("d1").save({ list: [0] });
  await durable.session("d1").append("/list", [1, 2]);
  await durable.close();
  expect(await calls()).toBe(0);
});

it("a store does not depend on the schemas of the search path", async () => {
  const { url } = await newTrappedDatabase();
  await useStore(newPool(url, "public,pg_catalog"));
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query("DROP SCHEMA public CASCADE");
  await client.end();
  const store = await openPostgresStore(newPool(url, "nowhere"), { durability: "process" });
  await store.commit({ puts: [{ key: "k", value: "1" }] });
  expect(await store.get(["k"])).toMatchObject([{ value: "1" }]);
  await store.close();
});

it("finding the session that holds a lock calls nothing of another role", async () => {
  const { url, calls } = await newTrappedDatabase();
  const pool = newPool(url, "public,pg_catalog");
  await (await openPostgresStore(pool, { durability: "process" })).close();
  const holder = await newPool(url, undefined).connect();
  await holder.query("BEGIN; LOCK TABLE savepoint.savepoint_record");
  await expect(openPostgresStore(pool, { durability: "process", busyTimeout: 200 })).rejects.toMatchObject({
    code: "BUSY",
    details: { holders: [{ user: expect.any(String) as string }] },
  });
  await holder.query("ROLLBACK");
  holder.release();
  expect(await calls()).toBe(0);
});
