/** Commits that come together, on a store that syncs: most of them are one plain statement. */
import { randomBytes } from "node:crypto";
import pg from "pg";
import { expect, it } from "vitest";
import { openPostgresStore } from "../../src/store.js";
import type { Commit } from "../../src/store/contract/contract.js";
import { dropSchema, newPostgresUrl } from "./schemas.js";

it("a commit that the server cannot store fails alone, and the other commits of its group succeed", async () => {
  const url = newPostgresUrl();
  const store = await openPostgresStore(url, { onBackgroundFailure: () => {} });
  await store.commit({ puts: [{ key: "a", value: "1" }] });
  const tooLong = randomBytes(9000).toString("base64");
  const outcomes = await Promise.allSettled([
    store.commit({ checks: [{ key: "a", value: "1" }], puts: [{ key: "a", value: "2" }] }),
    store.commit({ puts: [{ key: tooLong, value: "" }] }),
    store.commit({ checks: [{ key: "b", value: undefined }], puts: [{ key: "b", value: "1" }] }),
  ]);
  expect(outcomes).toMatchObject([
    { status: "fulfilled" },
    { reason: { code: "INVALID_ID" } },
    { status: "fulfilled" },
  ]);
  expect(await store.get(["a", "b"])).toMatchObject([{ value: "2" }, { value: "1" }]);
  await store.close();
  await dropSchema(url);
});

it("a group of commits whose answer was lost is applied once, and each of its commits succeeds", async () => {
  const url = new URL(newPostgresUrl());
  const schema = url.searchParams.get("schema") as string;
  url.searchParams.delete("schema");
  const pool = new pg.Pool({ connectionString: url.href, max: 4 });
  const plain = pool.query.bind(pool) as (statement: { text: string }) => Promise<unknown>;
  let lost = 0;
  pool.query = (async (statement: { text: string }) => {
    const result = await plain(statement);
    if (!statement.text.startsWith("WITH replaced") || lost++ > 0) return result;
    throw Object.assign(new Error("Connection terminated unexpectedly"), { code: "ECONNRESET" });
  }) as unknown as typeof pool.query;
  const store = await openPostgresStore(pool, { schema, onBackgroundFailure: () => {} });
  await store.commit({ puts: ["a", "b", "c"].map((key) => ({ key, value: "0" })) });
  const append = (counter: string): Commit => ({
    checks: [{ key: counter, exists: true }],
    items: [{ tape: `tape of ${counter}`, counter, items: [{ json: JSON.stringify(counter), refs: "" }] }],
  });
  const results = await Promise.all([
    store.commit(append("a")),
    store.commit(append("b")),
    store.commit({ checks: [{ key: "c", value: "0" }], puts: [{ key: "c", value: "1" }] }),
    store.commit({ checks: [{ key: "d", value: undefined }], puts: [{ key: "d", value: "1" }] }),
  ]);
  expect(lost).toBe(1);
  expect(results).toEqual([{ firsts: [0] }, { firsts: [0] }, { firsts: [] }, { firsts: [] }]);
  expect(await store.get(["a", "b", "c", "d"])).toMatchObject(["1", "1", "1", "1"].map((value) => ({ value })));
  await store.close();
  await pool.end();
  url.searchParams.set("schema", schema);
  await dropSchema(url.href);
});
