/** Checks compare tags: what conflicts, and what does not, between connections and processes. */
import pg from "pg";
import { describe, expect, inject, it } from "vitest";
import { openPostgresStore, openStore, type Store } from "../../src/store.js";
import { until } from "../support/until.mjs";
import { interceptAnswers } from "./clients.js";
import { query } from "./schemas.js";
import { useUndo } from "./undo.js";

const { undo, newUrl } = useUndo();

describe.each([{ portable: false }, { portable: true }])(
  "a PostgreSQL store with $portable as `portable`",
  (profile) => {
    const open = async (url: string): Promise<Store> => {
      const store = await openStore(url, { ...profile, onBackgroundFailure: () => {} });
      undo.push(() => store.close());
      return store;
    };

    it("gives exactly one of two processes each version of a record, whatever they write meanwhile", async () => {
      const url = newUrl();
      const stores = [await open(url), await open(url)];
      await stores[0]?.commit({ puts: [{ key: "head", value: "0" }] });
      const won = await Promise.all(
        stores.map(async (store, writer) => {
          const versions: number[] = [];
          while (versions.length < 40) {
            const [record] = await store.get(["head"]);
            const before = (record as { value: string }).value;
            const version = Number(before) + 1;
            const commits = [
              store.commit({
                checks: [{ key: "head", value: before, tag: "head" }],
                puts: [
                  { key: "head", value: String(version) },
                  { key: `v${version}`, value: String(writer) },
                ],
                items: [{ tape: "t", first: version - 1, items: [{ json: String(writer), refs: "" }] }],
              }),
              // In the same transaction, and not affected by the outcome of the other one.
              store.commit({ puts: [{ key: `beside ${writer}`, value: before }] }),
            ];
            const [outcome, beside] = await Promise.allSettled(commits);
            expect(beside?.status).toBe("fulfilled");
            if (outcome?.status === "fulfilled") versions.push(version);
            else {
              const { details } = (outcome as PromiseRejectedResult).reason as {
                details: { keys: string[]; tags: string[] };
              };
              expect(details).toEqual({ keys: ["head"], tags: ["head"] });
            }
          }
          return versions;
        }),
      );
      const all = won.flat().sort((a, b) => a - b);
      expect(all).toEqual(Array.from({ length: 80 }, (_, index) => index + 1));
      const owners = await stores[0]?.get(all.map((version) => `v${version}`));
      const items = await stores[0]?.items([{ tape: "t", start: 0, count: 80 }]);
      for (const [index, version] of all.entries()) {
        const owner = String(won.findIndex((versions) => versions.includes(version)));
        expect(owners?.[index]).toMatchObject({ value: owner });
        expect(items?.[index]).toMatchObject({ json: owner });
      }
    });

    it("rejects a commit that waited for a former owner's transaction, and applies one whose record came back", async () => {
      const url = newUrl();
      const store = await open(url);
      await store.commit({ puts: [{ key: "epoch", value: "1" }] });
      const [one] = await query<{ row: string }>(
        url,
        "SELECT tag::text || '|' || value AS row FROM {schema}.savepoint_record",
      );
      const [tag, value] = (one as { row: string }).row.split("|");
      const table = `"${new URL(url).searchParams.get("schema")}".savepoint_record`;
      const other = new pg.Client({ connectionString: inject("postgresUrl") });
      await other.connect();
      undo.push(() => other.end());
      for (const [restored, status] of [
        [false, "rejected"],
        [true, "fulfilled"],
      ] as const) {
        await other.query("BEGIN");
        await other.query(`UPDATE ${table} SET tag = '\\x00', value = '2' WHERE key = 'epoch'`);
        // The check of a record that is not written waits as well.
        const commit = store.commit({ checks: [{ key: "epoch", value: "1" }], puts: [{ key: "journal", value: "1" }] });
        const settled = Promise.allSettled([commit]);
        const waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'";
        await until(async () => (await query(url, waiting, [table])).length > 0, "the commit to wait for the lock");
        if (restored)
          await other.query(`UPDATE ${table} SET tag = $1::bytea, value = $2 WHERE key = 'epoch'`, [tag, value]);
        await other.query("COMMIT");
        expect((await settled)[0].status).toBe(status);
        await other.query(`UPDATE ${table} SET tag = $1::bytea, value = $2 WHERE key = 'epoch'`, [tag, value]);
      }
    });

    it("sends a commit again if what it checks holds by the time at which its failure is diagnosed", async () => {
      const url = newUrl();
      const other = await open(url);
      await other.commit({ puts: [{ key: "head", value: "changed" }] });
      const parsed = new URL(url);
      const schema = parsed.searchParams.get("schema") as string;
      parsed.searchParams.delete("schema");
      const pool = new pg.Pool({ connectionString: parsed.href, max: 2 });
      undo.push(() => pool.end());
      const store = await openPostgresStore(pool, { ...profile, schema, onBackgroundFailure: () => {} });
      undo.push(() => store.close());
      let failures = 0;
      interceptAnswers(pool, async (_, error) => {
        if (error !== null && failures++ === 0) await other.commit({ puts: [{ key: "head", value: "1" }] });
        return error;
      });
      const swap = { checks: [{ key: "head", value: "1" }], puts: [{ key: "head", value: "2" }] };
      await store.commit(swap);
      expect(failures).toBe(1);
      expect(await other.get(["head"])).toMatchObject([{ value: "2" }]);
      await expect(store.commit(swap)).rejects.toMatchObject({ code: "CONFLICT", details: { keys: ["head"] } });
    });

    it("creates tables and indexes, and no functions, triggers or types of its own", async () => {
      const url = newUrl();
      const store = await open(url);
      await store.texts?.find("x", { below: 9, limit: 9 });
      const schema =
        "(SELECT oid FROM pg_namespace WHERE quote_ident(nspname) = '{schema}' OR nspname = trim('{schema}', '\"'))";
      expect(await query(url, `SELECT proname FROM pg_proc WHERE pronamespace = ${schema}`)).toEqual([]);
      expect(
        await query(
          url,
          `SELECT tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE c.relnamespace = ${schema}`,
        ),
      ).toEqual([]);
      const tables = await query<{ name: string }>(
        url,
        `SELECT relname AS name FROM pg_class WHERE relnamespace = ${schema} AND relkind = 'r' ORDER BY 1`,
      );
      expect(tables.map(({ name }) => name)).toEqual(
        ["blob", "chunk", "meta", "record", ...(profile.portable ? [] : ["text", "text_mark", "text_source"])].map(
          (name) => `savepoint_${name}`,
        ),
      );
    });
  },
);
