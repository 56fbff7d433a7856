/** The statements that a connection keeps prepared, and batches that cannot be encoded. */
import pg from "pg";
import { expect, inject, it } from "vitest";
import { sendBatch } from "../../src/store/postgres/batch.js";
import type { PostgresClient } from "../../src/store/postgres/driver.js";
import { openPostgresStore } from "../../src/store.js";
import { useUndo } from "./undo.js";

const { undo, newUrl } = useUndo();

function newPool(max: number): pg.Pool {
  const pool = new pg.Pool({ connectionString: inject("postgresUrl"), max });
  undo.push(() => pool.end());
  return pool;
}

it("a connection keeps a bounded number of statements prepared, however many kinds of commits there are", async () => {
  const schema = new URL(newUrl()).searchParams.get("schema") as string;
  const pool = newPool(1);
  const store = await openPostgresStore(pool, { schema, durability: "process" });
  undo.push(() => store.close());
  const keys = (name: string, count: number): string[] =>
    Array.from({ length: count }, (_, index) => `${name}${index}`);
  let most = 0;
  const kinds = Array.from({ length: 320 }, (_, kind) => [kind % 7, Math.floor(kind / 7) % 7, Math.floor(kind / 49)]);
  for (const [index, [inserts = 0, upserts = 0, optional = 0]] of kinds.entries()) {
    const inserted = keys(`i${index} `, inserts + 1);
    await store.commit({
      checks: inserted.map((key) => ({ key, value: undefined })),
      puts: [
        ...inserted.map((key) => ({ key, value: "1" })),
        ...keys("u", upserts).map((key) => ({ key, value: String(index) })),
        ...keys("o", optional).map((key) => ({ key, value: "1", ifAbsent: true })),
      ],
    });
    if (index % 40 !== 39) continue;
    const { rows } = await pool.query<{ count: string }>("SELECT count(*) FROM pg_prepared_statements");
    most = Math.max(most, Number(rows[0]?.count));
  }
  expect(most).toBeGreaterThan(200);
  expect(most).toBeLessThanOrEqual(251);
  expect(await store.get(["i319 0", "u0"])).toMatchObject([{ value: "1" }, { value: "319" }]);
});

it("a batch that cannot be encoded fails, and the connection can be used again", async () => {
  const client = await newPool(1).connect();
  const values = Array.from({ length: 65_536 }, () => 1);
  const batch = sendBatch(client as PostgresClient, [{ text: "SELECT 1", values }], true);
  await expect(batch).rejects.toThrow("A statement failed.");
  expect((await client.query("SELECT 1 AS one")).rows).toEqual([{ one: 1 }]);
  client.release();
});
