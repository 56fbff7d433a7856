/** The search index of a SQLite store: when there is one, and what becomes of it where SQLite cannot have it or it is damaged. */
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { openSqliteStore, type SqliteDatabase, type Store } from "../../src/store.js";
import { SqliteConnection } from "../../src/store/sqlite/connection.js";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import { openScanTextIndex } from "../../src/store/shared/index.js";
import { type TextIndex, DOCUMENTS_PER_SOURCE } from "../../src/store/contract/text-index.js";
import { bytesOf } from "../../src/testing/samples.js";
import { runs } from "../support/runs.js";
import { chooseSeed } from "../support/seed.js";
import { makeFolder, removeFolder } from "./temporary-folder.js";

const EVERYTHING = { from: "", to: "\u{10ffff}" };
const PAGE = { below: Number.MAX_SAFE_INTEGER, limit: 10 };

let folder: string;
let file: string;
beforeEach(async () => {
  folder = await makeFolder();
  file = join(folder, "store.db");
});
afterEach(() => removeFolder(folder));

describe("the changes of records", () => {
  const RANGES = [
    { from: "c/", to: "c0" },
    { from: "s/", to: "s0" },
  ];

  it("are found without a comparison of all records, unless another process has written", async () => {
    const [store, other] = [await openSqliteStore(file), await openSqliteStore(file)];
    const texts = textsOf(store);
    const rows = vi.spyOn(SqliteConnection.prototype, "rows");
    const comparisons = async (work: () => Promise<unknown>): Promise<number> => {
      rows.mockClear();
      await work();
      const marks = await texts.changes(RANGES, 100);
      await texts.update({ sources: [], marks });
      expect(await texts.changes(RANGES, 100)).toEqual([]);
      return rows.mock.calls.filter(([sql, from]) => sql.includes("UNION ALL") && from === RANGES[0]?.from).length;
    };
    const put = (by: Store, key: string): Promise<unknown> =>
      by.commit({ puts: [{ key, value: String(Math.random()) }] });
    expect(await comparisons(() => put(store, "c/1"))).toBe(1);
    expect(await comparisons(() => put(store, "c/1"))).toBe(0);
    expect(await comparisons(() => store.commit({ deletes: ["c/1"] }))).toBe(0);
    expect(await comparisons(() => put(other, "c/2"))).toBe(1);
    expect(await comparisons(() => put(store, "c/3"))).toBe(0);
    rows.mockRestore();
    await Promise.all([store.close(), other.close()]);
  });

  it("are those that a comparison of all records finds, after any commits of two processes", async () => {
    const key = fc.constantFrom("c/1", "c/2", "c/22", "c/3", "s/1", "s/2", "x");
    const value = fc.nat(3).map(String);
    const commit = fc.oneof(
      fc.record({ puts: fc.tuple(fc.record({ key, value, ifAbsent: fc.boolean() })) }),
      fc.record({ deletes: fc.tuple(key) }),
      fc.record({ deletes: fc.tuple(fc.constantFrom({ from: "c/2", to: "c/3" }, { from: "a", to: "c/2" })) }),
      // Commits like these are buffered.
      fc.record({ checks: fc.constant([{ key: "head", value: "0" }]), puts: fc.tuple(fc.record({ key, value })) }),
      fc.record({ checks: fc.constant([{ key: "head", value: "1" }]), puts: fc.tuple(fc.record({ key, value })) }),
      fc.record({
        items: fc.tuple(fc.record({ counter: key, tape: fc.uuid(), items: fc.constant([{ json: "1", refs: "" }]) })),
      }),
    );
    const step = fc.record({
      by: fc.integer({ min: -12, max: 1 }),
      commit,
      compares: fc.boolean(),
      marks: fc.boolean(),
    });
    let n = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 40 }), async (steps) => {
        const path = join(folder, `${n++}.db`);
        const [store, other] = [await openSqliteStore(path), await openSqliteStore(path)];
        const model = openScanTextIndex(store);
        await store.commit({ puts: [{ key: "head", value: "0" }] });
        for (const { by, commit: given, compares, marks } of steps) {
          await (by === 1 ? other : store).commit(given).catch(() => {});
          if (!compares) continue;
          const expected = await model.changes(RANGES, 100);
          const found = await textsOf(store).changes(RANGES, 100);
          expect([...found].sort(byKey)).toEqual([...expected].sort(byKey));
          if (!marks) continue;
          for (const index of [model, textsOf(store)]) await index.update({ sources: [], marks: found });
        }
        await Promise.all([store.close(), other.close()]);
      }),
      { numRuns: runs(200), seed: chooseSeed() },
    );
  });
});

function byKey(a: { readonly key: string }, b: { readonly key: string }): number {
  return a.key < b.key ? -1 : 1;
}

describe("the tables of a search index", () => {
  it("do not exist before the first search, which creates them", async () => {
    const store = await openSqliteStore(file);
    await store.commit({ puts: [{ key: "k", value: "1" }] });
    expect(await textTables()).toEqual([]);
    await textsOf(store).find("text", PAGE);
    expect(await textTables()).toContain("savepoint_text_mark");
    await store.close();
  });

  it("are created once by handles that begin to search at the same time", async () => {
    const stores = await Promise.all([openSqliteStore(file), openSqliteStore(file)]);
    const found = stores.flatMap((store) => [textsOf(store).find("text", PAGE), textsOf(store).sources(["s"])]);
    expect(await Promise.all(found)).toEqual([[], [undefined], [], [undefined]]);
    for (const store of stores) await store.close();
  });

  it("are found in a full list of short texts, however many begin with the same character", async () => {
    const store = await openSqliteStore(file);
    const letters = Array.from({ length: 100 }, (_, n) => `a${String.fromCodePoint(0x4e00 + n)}`);
    await add(textsOf(store), "s", [...letters, "b", "ab"]);
    const found = await textsOf(store).find("a", { ...PAGE, limit: 1_000 });
    expect(found.length).toBeGreaterThanOrEqual(101);
    expect(await textsOf(store).find("a\u4e07", PAGE)).toEqual([DOCUMENTS_PER_SOURCE + 7]);
    await store.close();
  });

  it("contain nothing of an update that failed halfway", async () => {
    const store = await openSqliteStore(file);
    const texts = textsOf(store);
    await store.commit({ puts: [{ key: "k", value: "1" }] });
    const marks = await texts.changes([EVERYTHING], 10);
    await add(texts, "s", ["one"]);
    const [before] = await texts.sources(["s"]);
    await withDatabase((database) =>
      database.exec("CREATE TRIGGER no BEFORE INSERT ON savepoint_text_mark BEGIN SELECT RAISE(ABORT, 'no'); END"),
    );
    const update = { sources: [{ name: "s", before, from: 0, texts: ["two"], note: "" }], marks };
    await expect(texts.update(update)).rejects.toBeInstanceOf(Error);
    await withDatabase((database) => database.exec("DROP TRIGGER no"));
    expect(await texts.sources(["s"])).toEqual([before]);
    expect(await texts.find("one", PAGE)).toEqual([DOCUMENTS_PER_SOURCE]);
    expect(await texts.find("two", PAGE)).toEqual([]);
    expect(await texts.changes([EVERYTHING], 10)).toEqual(marks);
    expect(await texts.update(update)).toBe(true);
    expect(await texts.find("two", PAGE)).toEqual([DOCUMENTS_PER_SOURCE]);
    await store.close();
  });
});

describe("an SQLite without full-text search", () => {
  it("is searched in memory, and has no tables for it", async () => {
    const database = await openDatabase(file);
    const store = await openSqliteStore(withoutFullText(database));
    await store.commit({ puts: [{ key: "k", value: "1" }] });
    const texts = textsOf(store);
    const marks = await texts.changes([EVERYTHING], 10);
    expect(marks.map(({ key }) => key)).toEqual(["k"]);
    await texts.update({ sources: [], marks });
    expect(await texts.changes([EVERYTHING], 10)).toEqual([]);
    await add(texts, "s", ["some text"]);
    expect(await texts.find("text", PAGE)).toEqual([DOCUMENTS_PER_SOURCE]);
    await texts.clear();
    expect(await texts.find("text", PAGE)).toEqual([]);
    expect(await textTables()).toEqual([]);
    await store.close();
    database.close();
  });

  it("does not change the tables that one with full-text search has created", async () => {
    const other = await openSqliteStore(file);
    await add(textsOf(other), "s", ["some text"]);
    const database = await openDatabase(file);
    const store = await openSqliteStore(withoutFullText(database));
    expect(await textsOf(store).find("text", PAGE)).toEqual([]);
    await add(textsOf(store), "s", ["another text"]);
    expect(await textsOf(store).find("another", PAGE)).toEqual([DOCUMENTS_PER_SOURCE]);
    expect(await textsOf(other).find("another", PAGE)).toEqual([]);
    await store.close();
    database.close();
    await other.close();
  });
});

describe("a damaged search index", () => {
  const damages: Record<string, string> = {
    "has lost its data": "DELETE FROM savepoint_text_data WHERE id > 10",
    "has lost its structure": "DELETE FROM savepoint_text_data WHERE id = 10",
    "has other data": "UPDATE savepoint_text_data SET block = x'0102030405060708' WHERE id > 10",
    "has a number beyond all numbers": "UPDATE savepoint_text_source SET count = 9223372036854775807",
    "has another name for a column": `PRAGMA writable_schema = ON;
      UPDATE sqlite_master SET sql = replace(sql, 'count', 'coumt') WHERE name = 'savepoint_text_source'`,
    "has lost a table": "DROP TABLE savepoint_text_idx",
  };
  for (const [what, sql] of Object.entries(damages)) {
    it(`is reported, affects nothing else and can be rebuilt if it ${what}`, async () => {
      const first = await openSqliteStore(file);
      for (let n = 0; n < 30; n++)
        await add(
          textsOf(first),
          `s${n}`,
          Array.from({ length: 5 }, (_, m) => `text ${n} ${m}`),
        );
      await first.close();
      await damage(sql);

      const store = await openSqliteStore(file);
      const texts = textsOf(store);
      const uses = [
        () => texts.find("text", PAGE),
        () => texts.find("t", PAGE),
        () => texts.find("", PAGE),
        () => removeAll(texts),
        () =>
          add(
            texts,
            "new",
            Array.from({ length: 50 }, (_, n) => `${n} `.repeat(1_000)),
          ),
        // More than the index gathers before it writes.
        () =>
          add(
            texts,
            "newer",
            Array.from({ length: 50 }, (_, n) => noise(20_000, n)),
          ),
      ];
      let failures = 0;
      for (const use of uses) {
        const failure: unknown = await use().catch((error: unknown) => error);
        if (failure instanceof Error) {
          failures++;
          expect(failure).toMatchObject({
            code: "DAMAGED",
            message: expect.stringContaining("search index") as string,
          });
        }
        // On the connection that has just failed.
        await store.commit({ puts: [{ key: "k", value: "1" }] });
        await store.commit({ items: [{ tape: "t", counter: "next", items: [{ json: "1", refs: "" }] }] });
      }
      expect(failures).toBeGreaterThan(0);
      await texts.clear();
      expect(await texts.find("text", PAGE)).toEqual([]);
      await add(texts, "s", ["some text"]);
      const [source] = await texts.sources(["s"]);
      expect(await texts.find("text", PAGE)).toEqual([(source?.id ?? 0) * DOCUMENTS_PER_SOURCE]);
      expect(await store.get(["k"])).toEqual([{ key: "k", value: "1", refs: "" }]);
      await store.close();
      const again = await openSqliteStore(file);
      expect(await textsOf(again).find("text", PAGE)).toHaveLength(1);
      await again.close();
    });
  }

  it("is replaced by an index in memory if it cannot be rebuilt", async () => {
    const first = await openSqliteStore(file);
    await add(textsOf(first), "s", ["some text"]);
    await first.close();
    await damage("UPDATE savepoint_text_config SET v = 99 WHERE k = 'version'");
    for (let round = 0; round < 2; round++) {
      const store = await openSqliteStore(file);
      await expect(textsOf(store).find("text", PAGE)).rejects.toMatchObject({ code: "DAMAGED" });
      await textsOf(store).clear();
      expect(await textsOf(store).find("text", PAGE)).toEqual([]);
      await add(textsOf(store), "s", ["some text"]);
      expect(await textsOf(store).find("text", PAGE)).toEqual([DOCUMENTS_PER_SOURCE]);
      await store.commit({ puts: [{ key: "k", value: String(round) }] });
      await store.close();
    }
  });

  it("can be rebuilt after another program has dropped its tables", async () => {
    const store = await openSqliteStore(file);
    await add(textsOf(store), "s", ["some text"]);
    await withDatabase((database) =>
      database.exec(`DROP TABLE savepoint_text_term; DROP TABLE savepoint_text;
        DROP TABLE savepoint_text_source; DROP TABLE savepoint_text_mark`),
    );
    await expect(textsOf(store).find("text", PAGE)).rejects.toMatchObject({ code: "DAMAGED" });
    await textsOf(store).clear();
    await add(textsOf(store), "s", ["some text"]);
    expect(await textsOf(store).find("text", PAGE)).toEqual([DOCUMENTS_PER_SOURCE]);
    await store.close();
  });
});

function textsOf(store: Store): TextIndex {
  if (!store.texts) throw new Error("The store has no search index.");
  return store.texts;
}

async function add(texts: TextIndex, name: string, documents: readonly string[]): Promise<void> {
  const source = { name, before: undefined, from: 0, texts: documents, note: "" };
  expect(await texts.update({ sources: [source], marks: [] })).toBe(true);
}

function noise(length: number, seed: number): string {
  return Buffer.from(bytesOf(length, seed + 1)).toString("base64");
}

async function removeAll(texts: TextIndex): Promise<void> {
  const names = Array.from({ length: 10 }, (_, n) => `s${n}`);
  const sources = await texts.sources(names);
  const update = names.map((name, n) => ({ name, before: sources[n], from: 0, texts: [], note: undefined }));
  await texts.update({ sources: update, marks: [] });
}

async function withDatabase(work: (database: SqliteDatabase) => void): Promise<void> {
  const database = await openDatabase(file);
  work(database);
  database.close();
}

/** Changes tables that are the full-text table's own, which drivers keep from being changed by accident. */
async function damage(sql: string): Promise<void> {
  await withDatabase((database) => {
    (database as { enableDefensive?: (on: boolean) => void }).enableDefensive?.(false);
    database.exec(sql);
  });
}

async function textTables(): Promise<string[]> {
  const names: string[] = [];
  await withDatabase((database) => {
    const rows = database.prepare("SELECT name FROM sqlite_master WHERE name LIKE 'savepoint_text%'").all();
    for (const { name } of rows as { name: string }[]) names.push(name);
  });
  return names;
}

/** A handle whose SQLite was built without FTS5. */
function withoutFullText(database: SqliteDatabase): SqliteDatabase {
  const check = (sql: string): string => {
    if (/USING fts5|FROM savepoint_text\b/.test(sql)) throw new Error("no such module: fts5");
    return sql;
  };
  return {
    exec: (sql) => database.exec(check(sql)),
    prepare: (sql) => database.prepare(check(sql)),
    close: () => database.close(),
  };
}
