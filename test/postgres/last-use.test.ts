/** The last use of a blob is a time of the server, and the store's clock counts from its last answer: how they compare. */
import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { expect, inject, it } from "vitest";
import { openPostgresStore } from "../../src/store.js";
import { useUndo } from "./undo.js";

const { undo, newUrl } = useUndo();

it("the store's time is not before the last use of a blob that it has just committed, if answers come late", async () => {
  const schema = new URL(newUrl()).searchParams.get("schema") as string;
  const pool = new pg.Pool({ connectionString: inject("postgresUrl") });
  undo.push(() => pool.end());
  const send = pool.query.bind(pool) as (...given: unknown[]) => Promise<unknown>;
  // Deliberately a time: answers are late, but not so late that the store does not count from them.
  pool.query = (async (...given: unknown[]) => {
    const result = await send(...given);
    await sleep(50);
    return result;
  }) as typeof pool.query;
  const store = await openPostgresStore(pool, { schema, durability: "process" });
  undo.push(() => store.close());
  await store.now();
  const bytes = Buffer.from("a picture");
  const hash = createHash("sha256").update(bytes).digest("hex");
  await store.commit({ blobs: [{ hash, bytes }] });
  const unusedSince = (await store.now()) + 1;
  expect(await store.dropBlobs([hash], { unusedSince })).toMatchObject({ items: 1 });
});
