/** Items directly after the last item that a process has written: only the primary key of chunks prevents collisions. */
import pg from "pg";
import { expect, inject, it } from "vitest";
import { openPostgresStore } from "../../src/store.js";
import type { Commit, ItemBatch } from "../../src/store/contract/contract.js";
import type { Statement } from "../../src/store/postgres/driver.js";
import { useUndo } from "./undo.js";

const { undo, newUrl } = useUndo();

/** A commit that replaces the value of a record, and adds items. */
function write(value: number, first: number, jsons: readonly string[]): Commit {
  const items: ItemBatch = { tape: "tape", first, items: jsons.map((json) => ({ json, refs: "" })) };
  return {
    checks: [{ key: "k", value: value === 0 ? undefined : String(value) }],
    puts: [{ key: "k", value: String(value + 1) }],
    items: [items],
  };
}

const tape = { tape: "tape", start: 0, count: 4 };

it("a single item after the last item of this process is added without a read of the tape, if the commit checks a value", async () => {
  const statements: string[] = [];
  const pool = new pg.Pool({ connectionString: inject("postgresUrl"), max: 3 });
  undo.push(() => pool.end());
  pool.on("connect", (client) => {
    const query = client.query.bind(client) as (...given: unknown[]) => unknown;
    client.query = ((...given: unknown[]) => {
      const { statements: batch = [] } = given[0] as { statements?: readonly Statement[] };
      for (const { text } of batch) if (text.includes("savepoint_chunk (")) statements.push(text);
      return query(...given);
    }) as typeof client.query;
  });
  const schema = new URL(newUrl()).searchParams.get("schema") as string;
  const store = await openPostgresStore(pool, { schema, durability: "process" });
  undo.push(() => store.close());
  await store.commit(write(0, 0, ["0"]));
  await store.commit(write(1, 1, ["1"]));
  await store.commit(write(2, 2, ["2", "3"]));
  await store.commit({ items: [{ tape: "tape", first: 4, items: [{ json: "4", refs: "" }] }] });
  await store.commit(write(3, 5, ["5"]));
  await store.commit(write(4, 7, ["7"]));
  expect(statements.map((text) => text.includes("ORDER BY first DESC"))).toEqual([
    true,
    false,
    true,
    true,
    false,
    true,
  ]);
  expect(await store.items([tape])).toMatchObject(["0", "1", "2", "3"].map((json) => ({ json })));
});

/** Opens one store twice, as two processes do. */
async function openTwice(): Promise<[PostgresStore, PostgresStore]> {
  const url = newUrl();
  const open = async (): Promise<PostgresStore> => {
    const store = await openPostgresStore(url, { durability: "process" });
    undo.push(() => store.close());
    return store;
  };
  return [await open(), await open()];
}

type PostgresStore = Awaited<ReturnType<typeof openPostgresStore>>;

it("an item after the last item of this process conflicts with an item that another process has written there", async () => {
  const [store, other] = await openTwice();
  await store.commit(write(0, 0, ["0"]));
  await other.commit({
    items: [{ tape: "tape", first: 1, items: ["a", "b"].map((name) => ({ json: `"${name}"`, refs: "" })) }],
  });
  for (const first of [1, 1, 2]) {
    await expect(store.commit(write(1, first, ["1"]))).rejects.toMatchObject({
      code: "CONFLICT",
      details: { keys: ["tape"] },
    });
  }
  // The other process may also have changed the checked record.
  await store.commit(write(1, 3, ["3"]));
  await other.commit(write(2, 4, ["4"]));
  await expect(store.commit(write(2, 4, ["x"]))).rejects.toMatchObject({ code: "CONFLICT" });
  expect(await store.items([tape])).toMatchObject(["0", '"a"', '"b"', "3"].map((json) => ({ json })));
  expect(await store.get(["k"])).toMatchObject([{ value: "3" }]);
});

it("an item conflicts with a packed one of another process, if the commit checks a record without replacing it", async () => {
  const [store, other] = await openTwice();
  const add = (first: number, json: string): ItemBatch[] => [{ tape: "tape", first, items: [{ json, refs: "" }] }];
  await store.commit({ puts: [{ key: "k", value: "0" }], items: add(0, "0") });
  await other.commit({ items: add(1, "1") });
  // Both items are in one chunk now.
  await other.compact();
  await expect(store.commit({ checks: [{ key: "k", value: "0" }], items: add(1, '"x"') })).rejects.toMatchObject({
    code: "CONFLICT",
    details: { keys: ["tape"] },
  });
  expect(await store.items([{ tape: "tape", start: 0, count: 2 }])).toMatchObject([{ json: "0" }, { json: "1" }]);
});
