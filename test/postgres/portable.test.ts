/** The portable profile: plain changes of one table, and nothing that only PostgreSQL has. */
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import pg from "pg";
import { expect, inject, it } from "vitest";
import { defineAgent, message, Savepoint } from "../../src/index.js";
import { openPostgresStore, openStore } from "../../src/store.js";
import { query } from "./schemas.js";
import { useUndo } from "./undo.js";

const { undo, newUrl } = useUndo();
const options = { portable: true, onBackgroundFailure: () => {} } as const;

/** The pool of a store, and the SQL of everything that is sent over it. */
function watchedPool(url: string): { pool: pg.Pool; schema: string; sent: Set<string> } {
  const parsed = new URL(url);
  const schema = parsed.searchParams.get("schema") as string;
  parsed.searchParams.delete("schema");
  const pool = new pg.Pool({ connectionString: parsed.href, max: 4 });
  undo.push(() => pool.end());
  const sent = new Set<string>();
  pool.on("connect", (client) => {
    const send = client.query.bind(client) as (...given: unknown[]) => unknown;
    client.query = ((first: unknown, ...rest: unknown[]) => {
      const { text, statements } = first as { text?: string; statements?: readonly { text: string }[] };
      for (const each of statements ?? [{ text: text ?? String(first) }]) sent.add(each.text);
      return send(first, ...rest);
    }) as typeof client.query;
  });
  return { pool, schema, sent };
}

const agent = defineAgent({
  name: "worker",
  initial: (n: number) => n,
  async step(run) {
    run.state = await run.effect("add", () => run.state + 1);
    return run.state < 3 ? undefined : run.complete(run.state);
  },
});

async function useEverything(sp: Savepoint): Promise<void> {
  const session = sp.session("s", { agent: "support" });
  await session.save({ messages: [], image: new Uint8Array(5000).fill(7) });
  for (let n = 0; n < 300; n++) await session.append("/messages", [message.user(`message ${n}`)]);
  expect(await sp.search("message 7")).not.toEqual([]);
  expect(await sp.run(agent, { session: "run", input: 0 })).toMatchObject({ status: "completed", output: 3 });
  const worker = sp.worker([agent], { poll: 50, signals: false });
  await worker.start();
  await sp.enqueue(agent, { session: "queued", input: 1 });
  for await (const event of sp.watch("queued")) if (event.type === "status" && event.status === "completed") break;
  await worker.stop();
  await sp.stats();
  expect(await sp.verify({ deep: true })).toMatchObject({ ok: true });
  await sp.prune({ keepLast: 2 });
  await sp.sessions.delete("run");
  await sp.compact();
}

it("the portable profile sends only plain changes of one table", async () => {
  const { pool, schema, sent } = watchedPool(newUrl());
  const sp = await Savepoint.open(pool, { ...options, schema });
  await useEverything(sp);
  await sp.close();
  expect(sent.size).toBeGreaterThan(30);
  for (const sql of sent) {
    expect(sql).not.toMatch(
      /plpgsql|CREATE (OR REPLACE )?FUNCTION|COLLATE|LISTEN|NOTIFY|advisory|SKIP LOCKED|FOR (KEY )?SHARE/i,
    );
    expect(sql).not.toMatch(/set_config|sha256|VACUUM|pg_total_relation_size|\bgin\b|FILLFACTOR|STORAGE/i);
    const changes = sql.match(/\b(INSERT INTO|DELETE FROM|(?<!FOR |DO )UPDATE) /g) ?? [];
    expect({ sql, changes: changes.length }).toEqual({ sql, changes: Math.min(changes.length, 1) });
  }
});

it("the portable profile is chosen by the URL, and reads and writes what the other one does", async () => {
  const url = newUrl();
  const portable = await openStore(`${url}&portable=true`, { onBackgroundFailure: () => {} });
  expect(portable).toMatchObject({ listen: undefined, reserve: undefined, texts: undefined });
  await portable.commit({ puts: [{ key: "k", value: "1", refs: "0+1" }] });
  const plain = await openStore(url, { durability: "process" });
  expect("listen" in plain).toBe(true);
  await plain.commit({ checks: [{ key: "k", value: "1" }], puts: [{ key: "k", value: "2" }] });
  await portable.commit({ checks: [{ key: "k", value: "2" }], puts: [{ key: "k", value: "3" }] });
  expect(await plain.get(["k"])).toEqual([{ key: "k", value: "3", refs: "" }]);
  await Promise.all([plain.close(), portable.close()]);
  await expect(openStore(`${url}&portable=maybe`)).rejects.toMatchObject({ code: "INVALID_URL" });
});

it("a portable store is created once by many processes, without a lock", async () => {
  const url = newUrl();
  const program = `
    const { openStore } = await import(${JSON.stringify(new URL("../../dist/store.js", import.meta.url).href)});
    const store = await openStore(process.argv[1] + "&portable=true", { onBackgroundFailure() {} });
    await store.commit({ puts: [{ key: "k" + process.pid, value: "1" }] });
    await store.close();`;
  const ended = await Promise.all(
    Array.from({ length: 8 }, async () => {
      const child = spawn(process.execPath, ["--input-type=module", "-e", program, url]);
      let output = "";
      child.stderr.on("data", (data) => (output += String(data)));
      const code = await new Promise((resolve) => child.once("exit", resolve));
      return { code, output };
    }),
  );
  expect(ended).toEqual(Array.from({ length: 8 }, () => ({ code: 0, output: "" })));
  expect(await query(url, "SELECT key FROM {schema}.savepoint_record WHERE key LIKE 'k%'")).toHaveLength(8);
  expect(await query(url, "SELECT value FROM {schema}.savepoint_meta")).toEqual([{ value: "3" }]);
});

it("a portable store is not created by a reader, and completed if the process that created it was killed", async () => {
  const url = newUrl();
  await expect(openStore(url, { ...options, create: false })).rejects.toMatchObject({ code: "STORE_NOT_FOUND" });
  await (await openStore(url, options)).close();
  await query(url, "DROP TABLE {schema}.savepoint_blob");
  await query(url, "DELETE FROM {schema}.savepoint_meta");
  await expect(openStore(url, { ...options, create: false })).rejects.toMatchObject({ code: "STORE_NOT_FOUND" });
  const store = await openStore(url, options);
  expect(await store.blobs({ after: "", limit: 1 })).toEqual([]);
  await store.close();
});

it("a portable store rejects a database that does not sort strings by their bytes", async () => {
  const name = `sorted_${randomBytes(4).toString("hex")}`;
  const admin = inject("postgresUrl");
  await query(admin, `CREATE DATABASE ${name} ENCODING 'UTF8' LOCALE_PROVIDER icu ICU_LOCALE 'en' TEMPLATE template0`);
  undo.push(() => query(admin, `DROP DATABASE ${name} WITH (FORCE)`));
  const url = new URL(admin);
  url.pathname = `/${name}`;
  await expect(openPostgresStore(url.href, options)).rejects.toMatchObject({
    code: "STORE_FAILED",
    message: expect.stringContaining("LC_COLLATE 'C'") as string,
  });
  const plain = await openPostgresStore(url.href, { durability: "process" });
  await plain.commit({ puts: ["b", "B", "a"].map((key) => ({ key, value: "1" })) });
  expect((await plain.list({ from: "A", to: "z" }, { limit: 9 })).map(({ key }) => key)).toEqual(["B", "a", "b"]);
  await plain.close();
});
