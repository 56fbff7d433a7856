/** How many round trips it takes to open a PostgreSQL store after a crash, and to resume a run. */
import pg from "pg";
import { afterEach, expect, inject, it, vi } from "vitest";
import { Savepoint } from "../../src/index.js";
import { crashRun, createSurvivor } from "../support/crashed-run.js";
import { dropSchema, newPostgresUrl } from "./schemas.js";

const undo: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const each of undo.splice(0).reverse()) await each();
});

it("a crashed store is opened and its run resumed with at most six round trips, without a lock", async () => {
  const url = newPostgresUrl();
  undo.push(() => dropSchema(url));
  await crashRun(url, 20);
  const statements: string[] = [];
  const pool = new pg.Pool({ connectionString: inject("postgresUrl") });
  undo.push(() => pool.end());
  pool.on("connect", (client) => {
    const query = client.query.bind(client) as (...given: unknown[]) => unknown;
    client.query = ((...given: [string | { text: string }, ...unknown[]]) => {
      const [statement] = given;
      statements.push(typeof statement === "string" ? statement : statement.text);
      return query(...given);
    }) as typeof client.query;
  });
  const schema = new URL(url).searchParams.get("schema") as string;
  // The time in an answer that takes long is not used, and asked for again: here, no answer takes any time.
  vi.useFakeTimers({ toFake: ["Date", "performance"] });
  undo.push(async () => void vi.useRealTimers());
  const sp = await Savepoint.open(pool, { schema, durability: "process", on: { uncleanShutdown: () => {} } });
  expect(sp.lastShutdown).toMatchObject({ clean: false, interrupted: [{ sessionId: "s", branch: "main" }] });
  let resumedWith: readonly string[] | undefined;
  const agent = createSurvivor(() => void (resumedWith = [...statements]));
  expect(await sp.run(agent, { session: "s", input: 1 })).toMatchObject({ status: "completed", output: "reply 20" });
  expect(resumedWith?.length, resumedWith?.join("\n")).toBeLessThanOrEqual(6);
  expect(resumedWith?.filter((statement) => /\bLOCK\b|advisory|FOR UPDATE|\bBEGIN\b/.test(statement))).toEqual([]);
  await sp.close();
  vi.useRealTimers();
  const again = await Savepoint.open(url, { durability: "process" });
  undo.push(() => again.close());
  expect(again.lastShutdown).toEqual({ clean: true, processes: [], interrupted: [] });
});
