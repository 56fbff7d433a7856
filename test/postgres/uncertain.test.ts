/** Connections that are cut: each pending commit is applied once, and its caller gets the right outcome. */
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { describe, expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import { openPostgresStore } from "../../src/store.js";
import type { PostgresOptions } from "../../src/store/postgres/options.js";
import type { Commit, Store } from "../../src/store/contract/contract.js";
import { query } from "./schemas.js";
import { isCommit, loseAnswers } from "./clients.js";
import { useUndo } from "./undo.js";

const { undo, newUrl } = useUndo();

/** The caller's own pool, with connections that can be told from others. */
function namedPool(url: string): { pool: pg.Pool; name: string; schema: string } {
  const name = `cut_${randomBytes(6).toString("hex")}`;
  const parsed = new URL(url);
  const schema = parsed.searchParams.get("schema") as string;
  parsed.searchParams.delete("schema");
  const pool = new pg.Pool({ connectionString: parsed.href, application_name: name, max: 4 });
  undo.push(() => pool.end());
  return { pool, name, schema };
}

async function open(
  url: string,
  options: PostgresOptions = {},
): Promise<Store & { readonly cut: () => Promise<void> }> {
  const { pool, name, schema } = namedPool(url);
  const store = await openPostgresStore(pool, { durability: "process", schema, ...options });
  undo.push(() => store.close());
  return Object.assign(store, { cut: () => cut(url, name) });
}

async function cut(url: string, name: string): Promise<void> {
  await query(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", [name]);
}

const frame = (json: string): { json: string; refs: string } => ({ json, refs: "" });

/** Appends a message to the tape `t`, as conversations do. */
const append = (text: string): Commit => ({
  checks: [{ key: "n", exists: true }],
  items: [{ tape: "t", counter: "n", items: [frame(JSON.stringify(text))] }],
});

async function texts(store: Store): Promise<unknown[]> {
  const [counter] = await store.get(["n"]);
  const count = Number((counter as { value: string }).value);
  const items = count === 0 ? [] : await store.items([{ tape: "t", start: 0, count }]);
  return items.map((item) => ("json" in item ? JSON.parse(item.json) : item));
}

describe("a lost answer to a commit", () => {
  it("neither causes a conflict nor applies the commit twice", async () => {
    const url = newUrl();
    const { pool, schema } = namedPool(url);
    const store = await openPostgresStore(pool, { durability: "process", schema });
    undo.push(() => store.close());
    let lose = true;
    const counted = loseAnswers(pool, (text) => isCommit(text) && lose && !(lose = false));
    await store.commit({ puts: [{ key: "a", value: "1" }], items: [{ tape: "x", first: 0, items: [frame("1")] }] });
    lose = true;
    await store.commit({ checks: [{ key: "a", value: "1" }], puts: [{ key: "a", value: "2" }] });
    lose = true;
    await store.commit({ checks: [{ key: "a", value: "2" }], deletes: ["a"] });
    expect(counted.lost).toBe(3);
    expect(await store.get(["a"])).toEqual([undefined]);
  });

  it("does not append messages twice, even if another process appends at that moment", async () => {
    const url = newUrl();
    const other = await open(url);
    await other.commit({ puts: [{ key: "n", value: "0" }] });
    const { pool, schema } = namedPool(url);
    const store = await openPostgresStore(pool, { durability: "process", schema });
    undo.push(() => store.close());
    let lose = 5;
    const answers = loseAnswers(pool, async (text) => {
      if (!isCommit(text) || lose-- <= 0) return false;
      await other.commit(append(`other ${lose}`));
      return true;
    });
    for (const name of ["a", "b", "c"]) await store.commit(append(name));
    await Promise.all(["d", "e", "f", "g"].map((name) => store.commit(append(name))));
    expect(answers.lost).toBe(5);
    const found = (await texts(other)).filter((text) => !String(text).startsWith("other"));
    expect(found).toEqual(["a", "b", "c", "d", "e", "f", "g"]);
  });

  it("does not fail the commit, even if its items were packed in the meantime", async () => {
    const url = newUrl();
    const other = await open(url);
    await other.commit({ puts: [{ key: "a", value: "0" }] });
    const { pool, schema } = namedPool(url);
    const store = await openPostgresStore(pool, { durability: "process", schema });
    undo.push(() => store.close());
    let lose = true;
    const answers = loseAnswers(pool, async (text) => {
      if (!isCommit(text) || !lose) return false;
      lose = false;
      await other.compact();
      return true;
    });
    const items = Array.from({ length: 100 }, (_, index) => frame(JSON.stringify(`message ${index} `.repeat(20))));
    const commit: Commit = {
      checks: [{ key: "a", value: "0" }],
      puts: [{ key: "a", value: "1" }],
      items: [{ tape: "x", first: 0, items }],
    };
    await expect(store.commit(commit)).resolves.toEqual({ firsts: [0] });
    expect(answers.lost).toBe(1);
  });

  it("is recognised for every commit of a group, also for those that later ones have overwritten", async () => {
    const url = newUrl();
    const { pool, schema } = namedPool(url);
    const store = await openPostgresStore(pool, { durability: "process", schema });
    undo.push(() => store.close());
    await store.commit({ puts: [{ key: "a", value: "0" }] });
    let lose = true;
    const answers = loseAnswers(pool, (text) => isCommit(text) && lose && !(lose = false));
    const raise = (from: number): Commit => ({
      checks: [{ key: "a", value: String(from) }],
      puts: [{ key: "a", value: String(from + 1) }],
    });
    await Promise.all([0, 1, 2].map((from) => store.commit(raise(from))));
    expect(answers.lost).toBe(1);
    expect(await store.get(["a"])).toEqual([{ key: "a", value: "3", refs: "" }]);
  });

  it("to a group does not hide that one of its commits conflicts", async () => {
    const url = newUrl();
    const { pool, schema } = namedPool(url);
    const store = await openPostgresStore(pool, { durability: "process", schema });
    undo.push(() => store.close());
    await store.commit({ puts: [{ key: "a", value: "0" }] });
    const raise = (from: number): Commit => ({
      checks: [{ key: "a", value: String(from) }],
      puts: [{ key: "a", value: String(from + 1) }],
    });
    // Every commit that is executed loses its first answer.
    let isRepeated = true;
    const answers = loseAnswers(pool, (text) => isCommit(text) && (isRepeated = !isRepeated) === false);
    const ended = await Promise.allSettled([0, 5, 1, 2].map((from) => store.commit(raise(from))));
    expect(ended.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled", "fulfilled"]);
    expect(answers.lost).toBeGreaterThan(0);
    expect(await store.get(["a"])).toEqual([{ key: "a", value: "3", refs: "" }]);
  });
});

describe("connections that are cut all the time", () => {
  it("lose no save and apply none twice", async () => {
    const url = newUrl();
    const store = await open(url, { patience: "60s" });
    await store.commit({ puts: [{ key: "n", value: "0" }] });
    let over = false;
    const cutting = (async () => {
      while (!over) {
        // Deliberately a random time: what a connection does when it is cut is what varies.
        await sleep(5 + Math.random() * 40);
        await store.cut();
      }
    })();
    try {
      const writers = Array.from({ length: 8 }, async (_, writer) => {
        for (let step = 0; step < 25; step++) {
          const key = `w${writer}`;
          await store.commit({
            checks: [{ key, value: step === 0 ? undefined : String(step) }],
            puts: [{ key, value: String(step + 1) }],
            items: [{ tape: key, first: step, items: [frame(String(step))] }],
          });
          await store.commit(append(`${writer} ${step}`));
        }
      });
      await Promise.all(writers);
    } finally {
      over = true;
      await cutting;
    }
    for (let writer = 0; writer < 8; writer++) {
      expect((await texts(store)).filter((text) => String(text).startsWith(`${writer} `))).toEqual(
        Array.from({ length: 25 }, (_, step) => `${writer} ${step}`),
      );
    }
  });

  it("do not end the process, also while it searches", async () => {
    const url = newUrl();
    const { pool, name, schema } = namedPool(url);
    const sp = await Savepoint.open(pool, { durability: "process", schema });
    undo.push(() => sp.close());
    for (let number = 0; number < 20; number++) {
      const { id } = await sp.conversations.create({ agent: "ada" });
      await sp.conversations.append(id, [{ role: "user", content: `number ${number} of the needles` }]);
    }
    let over = false;
    const cutting = (async () => {
      while (!over) {
        await cut(url, name);
        // Deliberately a time, so that something gets through.
        await sleep(2);
      }
    })();
    const tried = await Promise.allSettled(Array.from({ length: 5 }, () => sp.search("needles")));
    over = true;
    await cutting;
    expect(tried.length).toBe(5);
    expect(await sp.search("needles", { limit: 100 })).toHaveLength(20);
  });
});

describe("a commit that cannot be applied", () => {
  it("does not fail other commits that are written at the same time", async () => {
    const url = newUrl();
    const store = await open(url);
    const long = randomBytes(2000).toString("hex");
    const ended = await Promise.allSettled([
      store.commit({ puts: [{ key: "a", value: "1" }] }),
      store.commit({ puts: [{ key: "b", value: "1" }] }),
      store.commit({ puts: [{ key: long, value: "1" }] }),
      store.commit({ puts: [{ key: "c", value: "1" }] }),
    ]);
    expect(ended.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected", "fulfilled"]);
    expect((ended[2] as PromiseRejectedResult).reason).toMatchObject({ code: "INVALID_ID" });
  });

  it("does not fail other commits if its counter is damaged", async () => {
    const url = newUrl();
    const store = await open(url);
    await store.commit({ puts: [{ key: "n", value: "0" }] });
    await query(url, "UPDATE {schema}.savepoint_record SET value = '7' WHERE key = 'n'");
    const ended = await Promise.allSettled([
      store.commit(append("x")),
      store.commit({ puts: [{ key: "b", value: "1" }] }),
    ]);
    expect(ended.map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
    expect((ended[0] as PromiseRejectedResult).reason).toMatchObject({ code: "DAMAGED" });
  });

  it("fails with CONFLICT if the record of its counter does not exist", async () => {
    const url = newUrl();
    const store = await open(url);
    await expect(store.commit(append("x"))).rejects.toMatchObject({ code: "CONFLICT", details: { keys: ["n"] } });
    // The record is created and used at the same time.
    await Promise.all([store.commit({ puts: [{ key: "n", value: "0" }] }), store.commit(append("x"))]);
    expect(await texts(store)).toEqual(["x"]);
  });
});
