/** Buffered commits behave like those in the tables, while other connections read, write or damage the file. */
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Commit } from "../../src/store.js";
import { openSqliteStore, type SqliteDatabase, type SqliteOptions, type Store } from "../../src/store.js";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import { withTestHooks } from "../../src/store/shared/index.js";
import { makeFolder, removeFolder } from "./temporary-folder.js";

let folder: string;
let path: string;
let opened: Store[];
let database: SqliteDatabase;
beforeEach(async () => {
  folder = await makeFolder();
  path = join(folder, "store.db");
  opened = [];
  await open();
  database = await openDatabase(path);
});
afterEach(async () => {
  database.close();
  for (const store of opened) await store.close();
  await removeFolder(folder);
});

async function open(options: SqliteOptions = {}): Promise<Store> {
  const store = await openSqliteStore(path, { durability: "process", ...options });
  opened.push(store);
  return store;
}

/** Commit `n` of a line: it checks and replaces a record, and adds another and an item. */
function step(n: number, line = "a"): Commit {
  return {
    checks: [{ key: `head/${line}`, value: n === 0 ? undefined : String(n - 1) }],
    puts: [
      { key: `head/${line}`, value: String(n) },
      { key: `row/${line}/${String(n).padStart(4, "0")}`, value: `{"é":${n}}`, refs: `${n}+1` },
    ],
    items: [{ tape: line, first: n, items: [{ json: `"${"x".repeat(n)}"`, refs: n % 2 ? "" : "0+1" }] }],
  };
}

async function walk(store: Store, from: number, to: number, line = "a"): Promise<void> {
  for (let n = from; n < to; n++) await store.commit(step(n, line));
}

const buffered = (): number =>
  (database.prepare("SELECT count(*) AS count FROM savepoint_buffer").get() as { count: number }).count;

describe("buffered commits", () => {
  it("begin with the second commit of a line, and are flushed after a while", async () => {
    const store = await open();
    await walk(store, 0, 1);
    expect(buffered()).toBe(0);
    await walk(store, 1, 50);
    expect(buffered()).toBe(49);
    await walk(store, 50, 500);
    expect(buffered()).toBeLessThan(300);
  });

  it("are found by every kind of read, in this and in other connections", async () => {
    const reads: Record<string, (store: Store) => Promise<void>> = {
      get: async (store) => expect(await store.get(["head/a"])).toMatchObject([{ value: "9" }]),
      list: async (store) => expect(await store.list({ from: "row/", to: "row0" }, { limit: 99 })).toHaveLength(10),
      items: async (store) =>
        expect(await store.items([{ tape: "a", start: 8, count: 2 }])).toEqual(
          [8, 9].map((n) => ({ json: `"${"x".repeat(n)}"`, refs: n % 2 ? "" : "0+1" })),
        ),
      itemRefs: async (store) =>
        expect(await store.itemRefs({ tape: "a", start: 7, count: 3 })).toEqual([{ item: 8, refs: "0+1" }]),
      tapes: async (store) => expect(await store.tapes({ from: "", to: "~" })).toEqual(["a"]),
      retain: async (store) =>
        expect(await store.retain("a", [], { below: 10, repack: true })).toMatchObject({ items: 10 }),
    };
    for (const read of Object.values(reads)) {
      for (const elsewhere of [false, true]) {
        database.exec("DELETE FROM savepoint_record; DELETE FROM savepoint_chunk");
        const store = await open();
        await walk(store, 0, 10);
        expect(buffered()).toBe(9);
        await read(elsewhere ? await open() : store);
        expect(buffered()).toBe(0);
      }
    }
  });

  it("can check whether a record exists, in the buffer and in the tables", async () => {
    const store = await open();
    const add = (n: number, checks: Commit["checks"] = []): Commit => {
      const { puts = [], ...commit } = step(n);
      return {
        ...commit,
        checks: [...(commit.checks ?? []), ...checks],
        puts: [...puts, { key: `id/${n}`, value: "1" }],
      };
    };
    const [absent, present] = [
      (key: string) => ({ key, value: undefined }),
      (key: string) => ({ key, exists: true as const }),
    ];
    await store.commit(add(0));
    await store.commit(add(1, [absent("id/1"), present("row/a/0000")]));
    await store.commit(add(2, [absent("id/2"), present("row/a/0001")]));
    expect(buffered()).toBe(2);
    for (const wrong of [absent("row/a/0000"), absent("row/a/0002"), absent("id/1"), present("id/3")]) {
      const conflict = { code: "CONFLICT", details: { keys: [wrong.key] } };
      await expect(store.commit(add(3, [wrong]))).rejects.toMatchObject(conflict);
    }
    expect(buffered()).toBe(2);
    await (await open()).commit({ puts: [{ key: "id/3", value: "2" }] });
    await expect(store.commit(add(3, [absent("id/3")]))).rejects.toMatchObject({ details: { keys: ["id/3"] } });
  });

  it("conflict with the commits of another writer", async () => {
    const [one, other] = [await open(), await open()];
    await walk(one, 0, 5);
    await other.commit({ puts: [{ key: "head/a", value: "other" }] });
    await expect(one.commit(step(5))).rejects.toMatchObject({ code: "CONFLICT", details: { keys: ["head/a"] } });
    await one.commit({ ...step(5), checks: [{ key: "head/a", value: "other" }] });
    await other.commit({ items: [{ tape: "a", first: 6, items: [{ json: "1", refs: "" }] }] });
    await expect(one.commit(step(6))).rejects.toMatchObject({ code: "CONFLICT", details: { keys: ["a"] } });
  });

  it("conflict with other buffered commits", async () => {
    const store = await open();
    await walk(store, 0, 5);
    await expect(store.commit(step(4))).rejects.toMatchObject({ code: "CONFLICT", details: { keys: ["head/a"] } });
    expect(buffered()).toBe(4);
    await expect(
      store.commit({ ...step(5), items: [{ tape: "a", first: 4, items: [{ json: "1", refs: "" }] }] }),
    ).rejects.toMatchObject({ code: "CONFLICT", details: { keys: ["a"] } });
    await walk(store, 5, 6);
  });

  it("fail alone in a group, and the others are applied", async () => {
    const store = await open();
    await walk(store, 0, 2, "a");
    await walk(store, 0, 2, "b");
    const outcomes = await Promise.allSettled([
      store.commit(step(2, "a")),
      store.commit(step(7, "b")),
      store.commit(step(2, "b")),
      store.commit({ ...step(3, "b"), blobs: [{ hash: "0".repeat(64) }] }),
      store.commit(step(3, "a")),
    ]);
    expect(outcomes.map(({ status }) => status === "fulfilled")).toEqual([true, false, true, false, true]);
    expect(await store.get(["head/a", "head/b"])).toMatchObject([{ value: "3" }, { value: "2" }]);
  });

  it("do not restore deleted records, or check a counter against an old value", async () => {
    const store = await open();
    await walk(store, 0, 3);
    await store.commit({ deletes: ["head/a"] });
    await expect(store.commit(step(3))).rejects.toMatchObject({ code: "CONFLICT" });
    await store.commit({ checks: [{ key: "n", value: undefined }], puts: [{ key: "n", value: "0" }] });
    await store.commit({ items: [{ tape: "t", counter: "n", items: [{ json: "1", refs: "" }] }] });
    await expect(
      store.commit({ checks: [{ key: "n", value: "0" }], puts: [{ key: "n", value: "5" }] }),
    ).rejects.toMatchObject({ code: "CONFLICT" });
  });

  it("are not made through a handle of the caller, and those of others are flushed", async () => {
    await walk(await open(), 0, 10);
    expect(buffered()).toBe(9);
    const mine = await openDatabase(path);
    const store = await openSqliteStore(mine);
    await walk(store, 10, 13);
    expect(buffered()).toBe(0);
    await store.close();
    mine.close();
  });

  it("are found while a commit that flushed them is rolled back", async () => {
    const store = await open();
    // A commit is applied at once, or in the next turn of the event loop. Others read at every moment of it.
    for (let n = 2, hops = 0; hops < 40; n++, hops++) {
      if (n === 2) for (const line of ["a", "b"]) await walk(store, 0, 2, line);
      for (const line of ["a", "b"]) await walk(store, n, n + 1, line);
      const commit = store.commit({ ...step(9999, "a"), blobs: [{ hash: "0".repeat(64) }] });
      const refused = expect(commit).rejects.toMatchObject({ code: "CONFLICT" });
      const looks: Promise<unknown>[] = [];
      for (let hop = 0; hop < hops; hop++) await Promise.resolve();
      looks.push(store.get(["head/b"]));
      await new Promise((resolve) => setImmediate(resolve));
      for (let hop = 0; hop < hops; hop++) await Promise.resolve();
      looks.push(store.get(["head/b"]));
      await refused;
      expect(await Promise.all(looks)).toMatchObject([[{ value: String(n) }], [{ value: String(n) }]]);
    }
  });

  it("are read at once while this process waits for the lock of another one", async () => {
    const store = await open({ busyTimeout: "60s" });
    await walk(store, 0, 5);
    database.exec("BEGIN IMMEDIATE");
    let isOver = false;
    const waits = store.commit({ puts: [{ key: "x", value: "1" }] }).then(() => (isOver = true));
    for (let turns = 0; turns < 50; turns++) {
      await nextTurn();
      expect(await store.get(["head/a"])).toMatchObject([{ value: "4" }]);
    }
    expect(isOver).toBe(false);
    database.exec("COMMIT");
    await waits;
  });

  it("of two stores that alternate are all kept", async () => {
    const stores = [await open(), await open()];
    for (let n = 0; n < 60; n++) await (stores[Math.floor(n / 7) % 2] as Store).commit(step(n));
    const records = await (await open()).list({ from: "row/", to: "row0" }, { limit: 99 });
    expect(records.map((record) => "value" in record && record.value)).toEqual(
      Array.from({ length: 60 }, (_, n) => `{"é":${n}}`),
    );
  });
});

describe("a buffer that cannot be flushed now", () => {
  /** Every kind of read, with commits 0 to 9 of the line. */
  async function readAll(store: Store): Promise<unknown> {
    return {
      get: await store.get(["head/a", "row/a/0009", "none"]),
      first: await store.list({ from: "row/", to: "row0" }, { limit: 3 }),
      last: await store.list({ from: "", to: "~" }, { limit: 4, reverse: true }),
      items: await store.items([
        { tape: "a", start: 8, count: 3 },
        { tape: "a", start: 0, count: 2 },
        { tape: "b", start: 0, count: 1 },
      ]),
      refs: await store.itemRefs({ tape: "a", start: 0, count: 99 }),
      tapes: await store.tapes({ from: "", to: "~" }),
    };
  }

  it("is read while another process writes", async () => {
    const store = await open();
    await walk(store, 0, 10);
    database.exec("BEGIN IMMEDIATE");
    const during = await readAll(store);
    expect(buffered()).toBe(9);
    database.exec("COMMIT");
    expect(during).toEqual(await readAll(store));
    expect(buffered()).toBe(0);
    expect(during).toMatchObject({ get: [{ value: "9" }, { value: '{"é":9}' }, undefined] });
  });

  it("is counted with about the bytes that it will have in the tables", async () => {
    const store = await open();
    await walk(store, 0, 10);
    const ranges = { records: [{ from: "row/", to: "row0" }], tapes: [{ from: "a", to: "b" }] };
    database.exec("BEGIN IMMEDIATE");
    const during = await store.bytesOf(ranges);
    expect(buffered()).toBe(9);
    database.exec("COMMIT");
    const flushed = await store.bytesOf(ranges);
    expect(buffered()).toBe(0);
    expect(during).toBeGreaterThan(flushed / 2);
    expect(during).toBeLessThan(flushed * 2);
  });

  it("is read after a sync has failed", async () => {
    let fails = false;
    const broken = new Error("the disk is broken");
    const store = await open(
      withTestHooks({ syncFile: (_, done) => done(fails ? broken : null) }, { durability: "power" }),
    );
    await walk(store, 0, 9);
    fails = true;
    await expect(store.commit(step(9))).rejects.toMatchObject({ code: "IO_FAILED" });
    const after = await readAll(store);
    expect(buffered()).toBe(9);
    expect(after).toEqual(await readAll(await open()));
  });
});

describe("numbers of items", () => {
  const add = (first: number, count: number): Commit => ({
    items: [{ tape: "t", first, items: Array.from({ length: count }, () => ({ json: "1", refs: "" })) }],
  });
  const guarded = (n: number, commit: Commit): Commit => ({
    ...commit,
    checks: [{ key: "g", value: n === 0 ? undefined : String(n - 1) }],
    puts: [{ key: "g", value: String(n) }],
  });

  it("that fill a gap do not end the tape", async () => {
    const store = await open();
    await store.commit(guarded(0, add(0, 5)));
    await store.commit(add(10, 5));
    await store.commit(guarded(1, add(5, 3)));
    await expect(store.commit(guarded(2, add(9, 3)))).rejects.toMatchObject({ code: "CONFLICT" });
    await store.commit(guarded(2, add(15, 1)));
  });

  it("are remembered after an empty batch, and after one with a counter", async () => {
    const store = await open();
    await store.commit(guarded(0, add(0, 10)));
    await store.commit(guarded(1, add(0, 0)));
    await expect(store.commit(guarded(2, add(3, 1)))).rejects.toMatchObject({ code: "CONFLICT" });
    await store.commit({ puts: [{ key: "n", value: "10" }] });
    await store.commit({ items: [{ tape: "t", counter: "n", items: [{ json: "2", refs: "" }] }] });
    await expect(store.commit(guarded(2, add(10, 1)))).rejects.toMatchObject({ code: "CONFLICT" });
    await store.commit(guarded(2, add(11, 1)));
  });
});

describe("a damaged buffered commit", () => {
  const damage = (column: string): unknown =>
    database.exec(
      `UPDATE savepoint_buffer SET ${column} = CAST(replace(CAST(${column} AS TEXT), 'row', 'roW') AS ${
        column === "body" ? "BLOB" : "TEXT"
      }) WHERE id = (SELECT max(id) FROM savepoint_buffer)`,
    );

  it("makes its own records unreadable, and no others", async () => {
    await walk(await open(), 0, 5);
    damage("body");
    const store = await open();
    const [head, row, before] = await store.get(["head/a", "row/a/0004", "row/a/0003"]);
    expect(head).toHaveProperty("unreadable");
    expect(row).toHaveProperty("unreadable");
    expect(before).toMatchObject({ value: '{"é":3}' });
    const items = await store.items([{ tape: "a", start: 3, count: 2 }]);
    expect(items).toMatchObject([{ json: '"xxx"' }, { unreadable: expect.any(String) as string }]);
  });

  it("conflicts with the next commit of the process that wrote it", async () => {
    const store = await open();
    await walk(store, 0, 5);
    damage("body");
    await (await open()).get([]);
    await expect(store.commit(step(5))).rejects.toMatchObject({ code: "CONFLICT" });
  });

  it("with a number that no driver can read does not affect the others", async () => {
    await walk(await open(), 0, 5);
    database.exec("UPDATE savepoint_buffer SET sum = 9223372036854775807 WHERE id = 2");
    const [head] = await (await open()).get(["head/a"]);
    expect(head).toMatchObject({ value: "4" });
  });

  it("is read if only the keys beside it are damaged", async () => {
    await walk(await open(), 0, 5);
    damage("keys");
    expect(await (await open()).get(["head/a"])).toMatchObject([{ value: "4" }]);
  });

  it("is kept in savepoint_lost and reported if its keys are damaged as well", async () => {
    await walk(await open(), 0, 5);
    damage("keys");
    damage("body");
    const reports: string[] = [];
    const store = await open({ onBackgroundFailure: ({ message }) => void reports.push(message) });
    expect(await store.get(["head/a"])).toMatchObject([{ value: "3" }]);
    expect(reports).toHaveLength(1);
    expect(database.prepare("SELECT keys FROM savepoint_lost").all()).toHaveLength(1);
  });
});
