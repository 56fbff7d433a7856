import pg from "pg";
import { expect, it } from "vitest";
import { openPostgresStore } from "../../src/store.js";
import { until } from "../support/until.mjs";
import { dropSchema, newPostgresUrl, query } from "./schemas.js";

it("a commit that waits for a check deletes what was added meanwhile", async () => {
  const url = newPostgresUrl();
  const store = await openPostgresStore(url, { onBackgroundFailure: () => {} });
  await store.commit({ puts: [{ key: "a", value: "1" }] });
  const base = new URL(url);
  const table = `"${base.searchParams.get("schema")}".savepoint_record`;
  base.searchParams.delete("schema");
  const other = new pg.Client({ connectionString: base.href });
  await other.connect();
  // Another process commits what checks "a" and adds "d": the commit here comes after it, because it changes "a".
  await other.query("BEGIN");
  await other.query(`SELECT 1 FROM ${table} WHERE key = 'a' FOR SHARE`);
  await other.query(`INSERT INTO ${table} SELECT 'd', tag, refs_sum, refs, value FROM ${table} WHERE key = 'a'`);
  const done = store.commit({ checks: [{ key: "a", value: "1" }], puts: [{ key: "a", value: "2" }], deletes: ["d"] });
  const waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'";
  await until(async () => (await query(url, waiting, [table])).length > 0, "the commit to wait for the lock");
  await other.query("COMMIT");
  await done;
  expect(await store.get(["a", "d"])).toMatchObject([{ value: "2" }, undefined]);
  await other.end();
  await store.close();
  await dropSchema(url);
});
