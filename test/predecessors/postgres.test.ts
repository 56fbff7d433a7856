/** The store that the five systems promise beside their files: the conformance kit is in test/store/postgres.test.ts. */
import pg from "pg";
import { describe, expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import { dropSchema, newPostgresUrl } from "../postgres/schemas.js";

describe("a store in Postgres", () => {
  it("001-U1: Postgres stores the same data as the other stores, also through the caller's own pool", async () => {
    const url = newPostgresUrl();
    const schema = new URL(url).searchParams.get("schema") as string;
    const base = new URL(url);
    base.searchParams.delete("schema");
    const pool = new pg.Pool({ connectionString: base.href });
    const options = { schema, durability: "process" } as const;
    try {
      const reference = await Savepoint.open("memory:");
      const sp = await Savepoint.open(pool, options);
      for (const each of [reference, sp]) {
        const session = each.session("s", { agent: "a" });
        for (let n = 0; n < 50; n++) await session.save({ n, bytes: new Uint8Array([n, 0, 255]) }, { step: n });
        await each.conversations.create({ id: "c", agent: "a", messages: [{ role: "user", content: "Olá" }] });
        expect(await each.prune({ session: "s", keepLast: 3 })).toMatchObject({ removed: 47 });
      }
      const steps = async (each: Savepoint): Promise<unknown[]> =>
        (await each.session("s").history().all()).map(({ step, seq }) => [step, seq]);
      expect(await steps(sp)).toEqual(await steps(reference));
      // A second Savepoint, opened by URL, finds the saved data.
      const again = await Savepoint.open(url, { durability: "process" });
      expect((await again.session("s").latest())?.state).toEqual({ n: 49, bytes: new Uint8Array([49, 0, 255]) });
      expect((await again.search("olá"))[0]).toMatchObject({ id: "c" });
      await again.close();
      await sp.close();
      // The pool belongs to the caller: it was not ended.
      expect((await pool.query("SELECT 1 AS one")).rows).toEqual([{ one: 1 }]);
      await reference.close();
    } finally {
      await pool.end();
      await dropSchema(url);
    }
  });
});
