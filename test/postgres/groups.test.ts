/** Commits that come together: they are one transaction. */
import { createHash, randomBytes } from "node:crypto";
import pg from "pg";
import { expect, inject, it } from "vitest";
import { openPostgresStore } from "../../src/store.js";
import type { Commit } from "../../src/store/contract/contract.js";
import { interceptAnswers, isCommit, loseAnswers } from "./clients.js";
import { dropSchema, newPostgresUrl, query } from "./schemas.js";

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

it("a commit may delete 200,000 records by name, beside a range and beside other commits", async () => {
  const url = newPostgresUrl();
  const store = await openPostgresStore(url, { durability: "process" });
  const deletes = Array.from({ length: 200_000 }, (_, index) => `k${index}`);
  await store.commit({ puts: ["k5", "r1", "kept"].map((key) => ({ key, value: "1" })) });
  await Promise.all([
    store.commit({ puts: [{ key: "a", value: "1" }] }),
    store.commit({ deletes: [...deletes, { from: "r", to: "s" }] }),
    store.commit({ deletes }),
  ]);
  expect(await store.get(["a", "k5", "r1", "kept"])).toMatchObject([
    { value: "1" },
    undefined,
    undefined,
    { value: "1" },
  ]);
  await store.close();
  await dropSchema(url);
});

it("a group of commits whose answer was lost is applied once, and each of its commits succeeds", async () => {
  const url = new URL(newPostgresUrl());
  const schema = url.searchParams.get("schema") as string;
  url.searchParams.delete("schema");
  const pool = new pg.Pool({ connectionString: url.href, max: 4 });
  let loses = false;
  const answers = loseAnswers(pool, (text) => isCommit(text) && loses && !(loses = false));
  const store = await openPostgresStore(pool, { schema, onBackgroundFailure: () => {} });
  await store.commit({ puts: ["a", "b", "c"].map((key) => ({ key, value: "0" })) });
  const append = (counter: string): Commit => ({
    checks: [{ key: counter, exists: true }],
    items: [{ tape: `tape of ${counter}`, counter, items: [{ json: JSON.stringify(counter), refs: "" }] }],
  });
  loses = true;
  const results = await Promise.all([
    store.commit(append("a")),
    store.commit(append("b")),
    store.commit({ checks: [{ key: "c", value: "0" }], puts: [{ key: "c", value: "1" }] }),
    store.commit({ checks: [{ key: "d", value: undefined }], puts: [{ key: "d", value: "1" }] }),
  ]);
  expect(answers.lost).toBe(1);
  expect(results).toEqual([{ firsts: [0] }, { firsts: [0] }, { firsts: [] }, { firsts: [] }]);
  expect(await store.get(["a", "b", "c", "d"])).toMatchObject(["1", "1", "1", "1"].map((value) => ({ value })));
  await store.close();
  await pool.end();
  url.searchParams.set("schema", schema);
  await dropSchema(url.href);
});

it("a commit that touches a damaged page of the server fails alone", async () => {
  const url = newPostgresUrl();
  const store = await openPostgresStore(url, { onBackgroundFailure: () => {} });
  await query(
    url,
    `CREATE FUNCTION {schema}.damaged() RETURNS trigger LANGUAGE plpgsql
     AS $$ BEGIN RAISE EXCEPTION 'invalid page' USING ERRCODE = 'XX001'; END $$`,
  );
  await query(
    url,
    `CREATE TRIGGER damaged BEFORE INSERT ON {schema}.savepoint_record FOR EACH ROW
     WHEN (NEW.key = 'b') EXECUTE FUNCTION {schema}.damaged()`,
  );
  const outcomes = await Promise.allSettled(
    ["a", "b", "c"].map((key) => store.commit({ puts: [{ key, value: "1" }] })),
  );
  expect(outcomes).toMatchObject([{ status: "fulfilled" }, { reason: { code: "DAMAGED" } }, { status: "fulfilled" }]);
  await store.close();
  await dropSchema(url);
});

it("commits with large blobs are not sent as one transaction", async () => {
  const url = new URL(newPostgresUrl());
  const schema = url.searchParams.get("schema") as string;
  const pool = new pg.Pool({ connectionString: inject("postgresUrl"), max: 4 });
  let transactions = 0;
  interceptAnswers(pool, (_, error) => (transactions++, error));
  const store = await openPostgresStore(pool, { schema, onBackgroundFailure: () => {} });
  const blobs = [1, 2, 3].map(() => randomBytes(9 * 1024 * 1024));
  await Promise.all(
    blobs.map((bytes) => store.commit({ blobs: [{ hash: createHash("sha256").update(bytes).digest("hex"), bytes }] })),
  );
  expect(transactions).toBe(3);
  await store.close();
  await pool.end();
  await dropSchema(url.href);
});
