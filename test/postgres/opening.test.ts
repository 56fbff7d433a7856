/** Opening a PostgreSQL store: what is created, what is rejected, and with which errors. */
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { createServer } from "node:net";
import { inspect } from "node:util";
import pg from "pg";
import { describe, expect, inject, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import { openPostgresStore, openStore } from "../../src/store.js";
import type { SavepointError } from "../../src/errors.js";
import { until } from "../support/until.mjs";
import { startProxy } from "./proxy.js";
import { query } from "./schemas.js";
import { useUndo } from "./undo.js";

const options = { durability: "process" } as const;
const { undo, newUrl } = useUndo();

/** The server, without a schema. */
const server = (): URL => new URL(inject("postgresUrl"));

async function asAdmin(...statements: string[]): Promise<void> {
  for (const statement of statements) await query(inject("postgresUrl"), statement);
}

/** A user of the server with a password of its own. */
async function newUser(...grants: string[]): Promise<{ url: URL; name: string; password: string }> {
  const name = `user_${randomBytes(6).toString("hex")}`;
  const password = `pw-${randomBytes(6).toString("hex")}`;
  await asAdmin(
    `CREATE ROLE ${name} LOGIN PASSWORD '${password}'`,
    ...grants.map((grant) => grant.replace("USER", name)),
  );
  undo.push(() => asAdmin(`DROP OWNED BY ${name} CASCADE`, `DROP ROLE ${name}`));
  const url = server();
  url.username = name;
  url.password = password;
  return { url, name, password };
}

/** The error, which must not contain a secret at any depth. */
async function failureOf(opening: Promise<unknown>, ...secrets: string[]): Promise<SavepointError> {
  const error = await opening.then(
    () => expect.unreachable("It was opened."),
    (thrown: SavepointError) => thrown,
  );
  const told = [error.message, error.stack, inspect(error, { depth: 12, showHidden: true }), JSON.stringify(error)];
  for (const secret of secrets) for (const text of told) expect(text).not.toContain(secret);
  return error;
}

describe("the schema of a PostgreSQL store", () => {
  it.each([
    ["plain", "agents"],
    ["with capitals and spaces", "My Agents"],
    ["with quotes", `a"b'c`],
    ["that tries to be a statement", `x"; DROP SCHEMA public CASCADE; --`],
    ["with a backslash", `back\\'slash`],
    ["in another language", "агенты"],
    ["as long as can be", "x".repeat(52)],
  ])("may have a name %s", async (_, name) => {
    const schema = `${name}${randomBytes(4).toString("hex")}`;
    const url = server();
    url.searchParams.set("schema", schema);
    undo.push(() => query(url.href, `DROP SCHEMA IF EXISTS "${schema.replaceAll('"', '""')}" CASCADE`));
    const store = await openStore(url.href, options);
    await store.commit({
      puts: [{ key: "a", value: "1" }],
      items: [{ tape: "t", first: 0, items: [{ json: "1", refs: "" }] }],
    });
    await store.close();
    const plain = server().href;
    const again = await openStore(plain, { ...options, schema });
    expect(await again.get(["a"])).toEqual([{ key: "a", value: "1", refs: "" }]);
    expect(await again.texts?.find("x", { below: 9, limit: 9 })).toEqual([]);
    await again.close();
  });

  it.each(["", "x".repeat(64), "ю".repeat(32), "nul\0"])("cannot be called %j", async (schema) => {
    const error = await failureOf(openStore(server().href, { schema }));
    expect(error.code).toBe("INVALID_ARGUMENT");
  });

  it("separates the stores of a database", async () => {
    const [one, two] = [await openStore(newUrl(), options), await openStore(newUrl(), options)];
    await one.commit({ puts: [{ key: "a", value: "1" }] });
    expect(await two.get(["a"])).toEqual([undefined]);
    await Promise.all([one.close(), two.close()]);
  });

  it("may already exist and contain other tables", async () => {
    const url = newUrl();
    await query(url, "CREATE SCHEMA {schema}");
    await query(url, "CREATE TABLE {schema}.mine (id int)");
    const store = await openStore(url, options);
    await store.close();
    expect(await query(url, "SELECT * FROM {schema}.mine")).toEqual([]);
  });
});

describe("a PostgreSQL store that does not exist yet", () => {
  it("is created once by many handles of one process", async () => {
    const url = newUrl();
    const stores = await Promise.all(Array.from({ length: 8 }, () => openStore(url, options)));
    await Promise.all(stores.map((store, index) => store.commit({ puts: [{ key: `k${index}`, value: "1" }] })));
    expect(await stores[0]?.list({ from: "k", to: "l" }, { limit: 100 })).toHaveLength(8);
    await Promise.all(stores.map((store) => store.close()));
    expect(await query(url, "SELECT key, value FROM {schema}.savepoint_meta")).toEqual([{ key: "schema", value: "3" }]);
  });

  it("is created once by many processes, even if the default isolation is serializable", async () => {
    const url = newUrl();
    const { url: base, name } = await newUser("GRANT CREATE ON DATABASE postgres TO USER");
    await asAdmin(`ALTER ROLE ${name} SET default_transaction_isolation = 'serializable'`);
    base.searchParams.set("schema", new URL(url).searchParams.get("schema") as string);
    const program = `
      const { openStore } = await import(${JSON.stringify(new URL("../../dist/store.js", import.meta.url).href)});
      const store = await openStore(process.argv[1], { durability: "process" });
      await store.commit({ puts: [{ key: "k" + process.pid, value: "1" }] });
      await store.texts.find("x", { below: 9, limit: 9 });
      await store.close();`;
    const ended = await Promise.all(
      Array.from({ length: 8 }, async () => {
        const child = spawn(process.execPath, ["--input-type=module", "-e", program, base.href]);
        let output = "";
        child.stderr.on("data", (data) => (output += String(data)));
        const code = await new Promise((resolve) => child.once("exit", resolve));
        return { code, output };
      }),
    );
    expect(ended).toEqual(Array.from({ length: 8 }, () => ({ code: 0, output: "" })));
    expect(await query(url, "SELECT key FROM {schema}.savepoint_record WHERE key LIKE 'k%'")).toHaveLength(8);
  });
});

describe("opening a PostgreSQL store with `create: false`", () => {
  it("creates nothing if there is no store", async () => {
    const url = newUrl();
    expect((await failureOf(openStore(url, { ...options, create: false }))).code).toBe("STORE_NOT_FOUND");
    expect(await query(url, "SELECT to_regnamespace('{schema}')::text AS name")).toEqual([{ name: null }]);
  });

  it("opens an existing store, also for a user who may only read", async () => {
    const url = newUrl();
    const store = await openStore(url, options);
    await store.commit({ puts: [{ key: "a", value: "1" }] });
    await store.close();
    const { url: reader, name } = await newUser();
    await query(url, `GRANT USAGE ON SCHEMA {schema} TO ${name}`);
    await query(url, `GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO ${name}`);
    reader.searchParams.set("schema", new URL(url).searchParams.get("schema") as string);
    const again = await openStore(reader.href, { ...options, create: false });
    expect(await again.get(["a"])).toEqual([{ key: "a", value: "1", refs: "" }]);
    const refused = await failureOf(again.commit({ puts: [{ key: "a", value: "2" }] }));
    expect(refused.code).toBe("ACCESS_DENIED");
    await again.close();
  });
});

describe("opening a PostgreSQL store rejects", () => {
  it("a store of a newer version, without changing it", async () => {
    const url = newUrl();
    await (await openStore(url, options)).close();
    await query(url, "UPDATE {schema}.savepoint_meta SET value = '99' WHERE key = 'schema'");
    const error = await failureOf(openStore(url, options));
    expect(error).toMatchObject({ code: "STORE_TOO_NEW", details: { found: 99 } });
    expect(await query(url, "SELECT value FROM {schema}.savepoint_meta")).toEqual([{ value: "99" }]);
  });

  it("a store of an unreleased format, without changing it, and explains how to move its data", async () => {
    const url = newUrl();
    await (await openStore(url, options)).close();
    await query(url, "UPDATE {schema}.savepoint_meta SET value = '1' WHERE key = 'schema'");
    const error = await failureOf(openStore(url, options));
    expect(error).toMatchObject({ code: "STORE_TOO_OLD", details: { found: 1, known: 3 } });
    expect(error.message).toContain("savepoint export");
    expect(await query(url, "SELECT value FROM {schema}.savepoint_meta")).toEqual([{ value: "1" }]);
  });

  it.each([
    "CREATE TABLE {schema}.savepoint_meta (key text, value text)",
    "CREATE TABLE {schema}.savepoint_meta (other int)",
  ])("a schema that is not a store: %s", async (statement) => {
    const url = newUrl();
    await query(url, "CREATE SCHEMA {schema}");
    await query(url, statement);
    expect((await failureOf(openStore(url, options))).code).toBe("NOT_A_STORE");
  });

  it("a wrong password", async () => {
    const { url } = await newUser();
    url.password = "wr0ng-secret";
    const error = await failureOf(openStore(url.href), "wr0ng-secret");
    expect(error).toMatchObject({ code: "ACCESS_DENIED" });
    expect(error.message).toMatch(/password/);
  });

  it("a missing password", async () => {
    const { url } = await newUser();
    url.password = "";
    expect((await failureOf(openStore(url.href))).code).toBe("ACCESS_DENIED");
  });

  it("a wrong port, at once", async () => {
    const url = server();
    const [secret, port] = ["s3cret-here", await unusedPort()];
    url.password = secret;
    url.port = String(port);
    const error = await failureOf(openStore(url.href), secret);
    expect(error.code).toBe("UNAVAILABLE");
    expect(error.message).toContain(String(port));
  });

  it("a host that does not exist", async () => {
    const url = server();
    url.hostname = "no-such-host.invalid";
    const error = await failureOf(openStore(url.href), url.password);
    expect(error.code).toBe("UNAVAILABLE");
    expect(error.message).toContain("no-such-host.invalid");
  });

  it("a server that is not PostgreSQL or does not answer", async () => {
    const other = createServer((socket) => {
      socket.end("HTTP/1.1 400 Bad Request\r\n\r\n");
      undo.push(async () => socket.destroy());
    });
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    undo.push(() => new Promise((resolve) => other.close(resolve)));
    const url = server();
    url.port = String((other.address() as { port: number }).port);
    const error = await failureOf(openStore(url.href), url.password);
    expect(["UNAVAILABLE", "STORE_FAILED"]).toContain(error.code);
  });

  it("a database that does not exist, whatever its name is", async () => {
    const url = server();
    url.pathname = "/no_ssl_certificate";
    const error = await failureOf(openStore(url.href), url.password);
    expect(error.code).toBe("STORE_NOT_FOUND");
    expect(error.message).toContain("CREATE DATABASE");
  });

  it("TLS where the server has none", async () => {
    const url = server();
    url.searchParams.set("sslmode", "verify-full");
    const error = await failureOf(openStore(url.href), url.password);
    expect(error.code).toBe("ACCESS_DENIED");
    expect(error.message).toContain("sslmode");
  });

  it("a certificate that does not exist", async () => {
    const url = server();
    url.searchParams.set("sslmode", "verify-full");
    url.searchParams.set("sslrootcert", "/no/such/certificate.pem");
    const error = await failureOf(openStore(url.href), url.password);
    expect(error.code).toBe("ACCESS_DENIED");
    expect(error.message).toContain("/no/such/certificate.pem");
  });

  it("a user without rights", async () => {
    const { url, password } = await newUser();
    const error = await failureOf(
      openStore(url.href, { ...options, schema: `new_${randomBytes(4).toString("hex")}` }),
      password,
    );
    expect(error.code).toBe("ACCESS_DENIED");
    expect(error.message).toContain("GRANT");
    const taken = newUrl();
    await (await openStore(taken, options)).close();
    url.searchParams.set("schema", new URL(taken).searchParams.get("schema") as string);
    expect((await failureOf(openStore(url.href, options), password)).code).toBe("ACCESS_DENIED");
  });

  it("a database whose encoding cannot store every string", async () => {
    const name = `latin_${randomBytes(4).toString("hex")}`;
    await asAdmin(`CREATE DATABASE ${name} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`);
    undo.push(() => asAdmin(`DROP DATABASE ${name} WITH (FORCE)`));
    const url = server();
    url.pathname = `/${name}`;
    const error = await failureOf(openStore(url.href), url.password);
    expect(error.code).toBe("STORE_FAILED");
    expect(error.message).toContain("UTF8");
  });

  it.each([0, -1, 1.5, Number.NaN])("%s connections", async (connections) => {
    expect((await failureOf(openStore(newUrl(), { connections }))).code).toBe("INVALID_ARGUMENT");
  });
});

describe("a password", () => {
  it.each([
    "postgres://ada:s3cret@:bad:/x",
    "postgres://ada:1/s3cret@host/db",
    "postgres://ada:1#s3cret@host/db",
    "postgres://ada:1?s3cret@host/db",
    "postgres://ada:s3cret",
    "postgres:ada:s3cret@host/db",
    "postgress://ada:s3cret@host/db",
    "postgress://ada:x/s3cret@host/db",
    "mysql://ada:x@s3cret@host/db",
    "ada:s3cret@host/db",
    "host=localhost user=ada password=s3cret dbname=db",
    "host=localhost password='s3cret word' dbname=db",
  ])("is not part of the error for %s", async (url) => {
    expect((await failureOf(openStore(url), "s3cret")).code).toBe("INVALID_URL");
  });

  it("with a literal % is not part of the error", async () => {
    const url = server();
    const href = url.href.replace(`:${url.password}@`, ":50%s3cret@");
    expect((await failureOf(openStore(href), "s3cret")).code).toBe("ACCESS_DENIED");
  });

  it("is neither in the URL of an open store nor in its inspected form", async () => {
    const { url, password, name } = await newUser("GRANT CREATE ON DATABASE postgres TO USER");
    url.searchParams.set("schema", `said_${randomBytes(4).toString("hex")}`);
    const sp = await Savepoint.open(url.href, options);
    expect(sp.url).toContain(name);
    expect(inspect(sp, { depth: 3 })).not.toContain(password);
    expect(sp.url).not.toContain(password);
    await sp.close();
  });
});

describe("a pool of the caller's own", () => {
  function newPool(config: pg.PoolConfig = {}): { pool: pg.Pool; schema: string } {
    const schema = new URL(newUrl()).searchParams.get("schema") as string;
    const pool = new pg.Pool({ connectionString: server().href, ...config });
    undo.push(() => pool.end());
    return { pool, schema };
  }

  it("is used, and left as it was", async () => {
    const { pool, schema } = newPool();
    const before = pool.listenerCount("error");
    const sp = await Savepoint.open(pool, { ...options, schema });
    await sp.session("s").save({ a: 1 });
    expect((await sp.session("s").latest())?.state).toEqual({ a: 1 });
    const unlisten = await (await openPostgresStore(pool, { ...options, schema })).listen?.(() => {});
    await unlisten?.();
    await sp.close();
    expect(pool.ended).toBe(false);
    expect((await pool.query("SELECT 1 AS one")).rows).toEqual([{ one: 1 }]);
    // That of the second store, which is still open.
    expect(pool.listenerCount("error")).toBe(before + 1);
    expect(pool.idleCount).toBe(pool.totalCount);
    const client = await pool.connect();
    expect(client.listenerCount("notification")).toBe(0);
    expect(client.listenerCount("error")).toBe(0);
    client.release();
  });

  it("is left unchanged if the store cannot be opened", async () => {
    const { pool, schema } = newPool();
    expect((await failureOf(openPostgresStore(pool, { ...options, schema, create: false }))).code).toBe(
      "STORE_NOT_FOUND",
    );
    expect(pool.ended).toBe(false);
    expect(pool.listenerCount("error")).toBe(0);
  });

  it.each([1, 2, 3])("may have %i connections, and one may listen", async (max) => {
    const { pool, schema } = newPool({ max });
    const store = await openPostgresStore(pool, { ...options, schema });
    const heard: string[] = [];
    const unlisten = await store.listen?.((name) => heard.push(name));
    await store.commit({ puts: [{ key: "a", value: "1" }], wakes: ["ada"] });
    await Promise.all(Array.from({ length: 10 }, () => store.get(["a"])));
    await store.texts?.find("x", { below: 9, limit: 9 });
    await unlisten?.();
    await store.close();
  });

  it("makes reads fail with STORE_FAILED after the caller has ended it", async () => {
    const { pool, schema } = newPool();
    undo.pop();
    const store = await openPostgresStore(pool, { ...options, schema });
    await pool.end();
    await expect(store.get(["a"])).rejects.toMatchObject({ code: "STORE_FAILED" });
    await store.close();
  });

  it("may read large numbers as BigInt", async () => {
    const types = {
      getTypeParser: (oid: number, format?: "text" | "binary") =>
        oid === 20 ? BigInt : pg.types.getTypeParser(oid, format as "text"),
    };
    const { pool, schema } = newPool({ types: types as unknown as pg.CustomTypesConfig });
    const sp = await Savepoint.open(pool, { ...options, schema });
    for (let step = 0; step < 70; step++) await sp.session("s").save({ step, text: "x".repeat(2000) });
    expect((await sp.session("s").latest())?.state).toMatchObject({ step: 69 });
    expect(await sp.search("xxx")).toEqual([]);
    await sp.compact();
    expect((await sp.verify()).problems).toEqual([]);
    await sp.close();
  });
});

describe("a PostgreSQL store with few connections", () => {
  it.each([1, 2, 3])("supports every operation with %i", async (connections) => {
    const store = await openStore(newUrl(), { ...options, connections });
    const unlisten = await store.listen?.(() => {});
    for (let round = 0; round < 3; round++) {
      await Promise.all([
        store.commit({ puts: [{ key: "a", value: String(round) }] }),
        ...Array.from({ length: 5 }, () => store.get(["a"])),
      ]);
    }
    await store.texts?.find("x", { below: 9, limit: 9 });
    expect(await store.now()).toBeGreaterThan(0);
    await unlisten?.();
    await store.close();
  });
});

describe("closing a PostgreSQL store", () => {
  it("waits for pending operations and rejects later ones", async () => {
    const url = newUrl();
    const store = await openStore(url, options);
    const commits = Array.from({ length: 100 }, (_, index) =>
      store.commit({ puts: [{ key: `k${index}`, value: "1" }] }),
    );
    const reads = Array.from({ length: 20 }, () => store.get(["k1"]));
    const listening = store.listen?.(() => {});
    const closing = store.close();
    await expect(store.get(["k1"])).rejects.toMatchObject({ code: "CLOSED" });
    await expect(store.commit({})).rejects.toMatchObject({ code: "CLOSED" });
    await Promise.all([...commits, ...reads, listening, closing, store.close()]);
    expect(await query(url, "SELECT count(*)::int AS count FROM {schema}.savepoint_record")).toEqual([{ count: 100 }]);
  });

  it("ends listening without an error", async () => {
    const url = newUrl();
    const proxy = await startProxy(url);
    const store = await openStore(proxy.url, options);
    const unlisten = await store.listen?.(() => {});
    await store.listen?.(() => {});
    await unlisten?.();
    await store.close();
    // What would be thrown is thrown when the connection has ended.
    await until(() => proxy.connections === 0, "all connections to end");
    await proxy.close();
  });
});

async function unusedPort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve) => probe.listen(0, "127.0.0.1", resolve));
  const { port } = probe.address() as { port: number };
  await new Promise((resolve) => probe.close(resolve));
  return port;
}
