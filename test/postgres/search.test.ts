/** Searching a PostgreSQL store: by trigrams, and where those cannot be had. */
import { randomBytes } from "node:crypto";
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from "vitest";
import { message, Savepoint } from "../../src/index.js";
import { query } from "./schemas.js";

const options = { durability: "process" } as const;
const name = `search_${randomBytes(6).toString("hex")}`;
const password = "x";

/** A database without any extension, so that no other test is in the way. */
const database = (): URL => {
  const url = new URL(inject("postgresUrl"));
  url.pathname = `/${name}`;
  return url;
};

beforeAll(async () => {
  await query(inject("postgresUrl"), `CREATE DATABASE ${name}`);
  await query(inject("postgresUrl"), `CREATE ROLE ${name} LOGIN PASSWORD '${password}'`);
});
afterAll(async () => {
  await query(inject("postgresUrl"), `DROP DATABASE ${name} WITH (FORCE)`);
  await query(inject("postgresUrl"), `DROP ROLE ${name}`);
});

const undo: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const each of undo.splice(0).reverse()) await each();
});

const TEXTS = [
  "The needle is in the haystack",
  "NEEDLES, many of them",
  "100% of it_all \\ and more",
  "ein Grüßgott aus Köln",
  "日本語のテキスト",
  "👩‍🚀 in space",
  "a",
  "ab",
  "",
  "quotes ' and \" and ` and $1 and ?",
  "line one\nline two",
];
const SOUGHT = "needle NEEDLE edl e in % _ \\ 100% it_all köln grüß 日本 の 👩‍🚀 🚀 a ab ' \" $1 ?"
  .split(" ")
  .concat("one\nline", "nothing like it", "of it");

/** The conversations that are found by each text. */
async function findAll(sp: Savepoint): Promise<Record<string, string[]>> {
  const found: Record<string, string[]> = {};
  for (const text of SOUGHT) {
    const hits = await sp.search(text, { limit: 100 });
    found[text] = hits.map(({ id }) => id).sort();
  }
  return found;
}

async function fill(sp: Savepoint): Promise<void> {
  for (const [index, text] of TEXTS.entries()) {
    const { id } = await sp.conversations.create({ id: `c${index}`, agent: "ada" });
    await sp.conversations.append(id, [message.user(text)]);
  }
}

async function open(url: URL, schema: string): Promise<Savepoint> {
  url.searchParams.set("schema", schema);
  const sp = await Savepoint.open(url.href, options);
  undo.push(() => sp.close());
  return sp;
}

const indexes = (schema: string): Promise<{ indexname: string }[]> =>
  query(
    database().href,
    "SELECT indexname FROM pg_indexes WHERE schemaname = $1 AND indexname = 'savepoint_text_trigrams'",
    [schema],
  );

describe("searching a PostgreSQL store", () => {
  it("finds the same with trigrams and without", async () => {
    const memory = await Savepoint.open("memory:");
    undo.push(() => memory.close());
    await fill(memory);
    const expected = await findAll(memory);
    expect(expected["needle"]).toHaveLength(2);

    // May make a schema, and nothing else.
    await query(database().href, `CREATE SCHEMA plain AUTHORIZATION ${name}`);
    const url = database();
    url.username = name;
    url.password = password;
    const plain = await open(url, "plain");
    await fill(plain);
    expect(await findAll(plain)).toEqual(expected);
    expect(await query(database().href, "SELECT FROM pg_extension WHERE extname = 'pg_trgm'")).toEqual([]);
    expect(await indexes("plain")).toEqual([]);

    const fast = await open(database(), "fast");
    await fill(fast);
    expect(await findAll(fast)).toEqual(expected);
    expect(await query(database().href, "SELECT FROM pg_extension WHERE extname = 'pg_trgm'")).toHaveLength(1);
    expect(await indexes("fast")).toHaveLength(1);
  });

  it("works with an empty search_path", async () => {
    await query(inject("postgresUrl"), `ALTER ROLE ${name} SET search_path = ''`);
    await query(database().href, `CREATE SCHEMA pathless AUTHORIZATION ${name}`);
    const url = database();
    url.username = name;
    url.password = password;
    const sp = await open(url, "pathless");
    await fill(sp);
    expect(await sp.search("needle")).toHaveLength(2);
  });

  it("can begin in many callers at once", async () => {
    const handles = await Promise.all(Array.from({ length: 6 }, () => open(database(), "together")));
    await fill(handles[0] as Savepoint);
    const found = await Promise.all(handles.map((sp) => sp.search("needle")));
    expect(found.map((hits) => hits.length)).toEqual([2, 2, 2, 2, 2, 2]);
  });

  it("uses the trigram index once there is much text", async () => {
    const sp = await open(database(), "large");
    await fill(sp);
    await sp.search("needle");
    await query(
      database().href,
      `INSERT INTO large.savepoint_text (number, text) SELECT 1000000000 + n, md5(n::text) || md5((n + 1)::text) FROM generate_series(1, 20000) n`,
    );
    await query(database().href, "VACUUM ANALYZE large.savepoint_text");
    const plan = await query<Record<string, string>>(
      database().href,
      "EXPLAIN SELECT number FROM large.savepoint_text WHERE text LIKE '%needles%' AND number < 9000000000000 ORDER BY number DESC LIMIT 50",
    );
    expect(JSON.stringify(plan)).toContain("savepoint_text_trigrams");
  });
});
