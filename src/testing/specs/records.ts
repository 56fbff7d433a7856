/** Records: a record is read back by exactly its key, and lists are in the byte order of the keys. */
import assert from "node:assert/strict";
import { prefixRange, type Store } from "../../store/index.js";
import { assertSame, getOne } from "../assertions.js";
import { EVERYTHING, keysOf, listAll, putsOf } from "../samples.js";
import type { Suite } from "../suite.js";

/** Keys that a query language, a file system or an inexact comparison would confuse. */
const HOSTILE_KEYS = [
  // A query language: quotes, wildcards, escapes.
  [" ", "  ", "'", "''", '"; DROP TABLE records; --', "%", "_", "*", "?", "[a-z]", "\\", "\n", "\t"],
  // A file system: folders, separators, reserved names, names that differ only in case.
  [".", "..", "../up", "/", "a/", "a/b", "a//b", "a:b", "CON", "case", "Case", "CASE"],
  // Comparisons: normalized text, numbers, properties of objects, invisible characters.
  ["é", "e\u0301", "ß", "SS", "null", "0", "00", "1e3", "1000", "true", "__proto__", "constructor"],
  ["\u{1f600}", "\u{1f468}\u{200d}\u{1f469}", "\u{feff}mark", "日本語"],
].flat();

/** Keys in the order of their UTF-8 bytes. In the order of JavaScript strings, the last two come before the preceding two. */
const BYTE_ORDER = ["A", "Z", "a", "z", "~", "é", "ÿ", "日", "\u{ff5e}", "\u{fffd}", "\u{10000}", "\u{1f600}"];

export function recordSpec(suite: Suite): void {
  suite.describe("records", () => {
    suite.test("a record is read back as it was put", async ({ store }) => {
      await store.commit({ puts: [{ key: "k", value: '{"a":1}', refs: "0+3;#abc" }] });
      assert.deepEqual(await getOne(store, "k"), { key: "k", value: '{"a":1}', refs: "0+3;#abc" });
    });

    suite.test("a put without refs has empty refs, and a second put replaces value and refs", async ({ store }) => {
      await store.commit({ puts: [{ key: "k", value: "1", refs: "0+1" }] });
      await store.commit({ puts: [{ key: "k", value: "2" }] });
      assert.deepEqual(await getOne(store, "k"), { key: "k", value: "2", refs: "" });
    });

    suite.test("the last of several puts of one key in a commit wins", async ({ store }) => {
      await store.commit({ puts: ["1", "2", "3"].map((value) => ({ key: "k", value })) });
      assert.deepEqual(await getOne(store, "k"), { key: "k", value: "3", refs: "" });
    });

    suite.test("ifAbsent creates a missing record and leaves an existing one unchanged", async ({ store }) => {
      await store.commit({ puts: [{ key: "k", value: "1", refs: "0+1", ifAbsent: true }] });
      await store.commit({
        puts: [
          { key: "k", value: "2", ifAbsent: true },
          { key: "l", value: "3", ifAbsent: true },
        ],
      });
      assert.deepEqual(await getOne(store, "k"), { key: "k", value: "1", refs: "0+1" });
      assert.deepEqual(await getOne(store, "l"), { key: "l", value: "3", refs: "" });
    });

    suite.test("get() returns one result per key, and undefined for a missing record", async ({ store }) => {
      await put(store, ["a", "b"]);
      const found = await store.get(["b", "x", "a", "b", "A"]);
      assert.deepEqual(
        found.map((record) => record?.key),
        ["b", undefined, "a", "b", undefined],
      );
      assert.deepEqual(await store.get([]), []);
    });

    suite.test("get() accepts thousands of keys", async ({ store }) => {
      const keys = Array.from({ length: 5_000 }, (_, n) => `key/${n}`);
      await put(store, keys);
      assert.deepEqual(
        (await store.get(keys)).map((record) => record?.key),
        keys,
      );
    });

    suite.test("similar and hostile keys are kept apart", async ({ store }) => {
      await put(store, HOSTILE_KEYS);
      for (const key of HOSTILE_KEYS) {
        assert.deepEqual(await getOne(store, key), { key, value: JSON.stringify(key), refs: "" });
      }
      assert.equal((await store.list(EVERYTHING, { limit: 1_000 })).length, HOSTILE_KEYS.length);
      await store.commit({ deletes: ["%", "_", "*", "case"] });
      assert.equal((await store.list(EVERYTHING, { limit: 1_000 })).length, HOSTILE_KEYS.length - 4);
    });

    suite.test("keys of 4,096 bytes that differ only in the last byte are kept apart", async ({ store }) => {
      const long = ["a", "b", "c"].map((end) => "k".repeat(4_095) + end);
      const wide = "\u{1f600}".repeat(1_024);
      await put(store, [...long, wide]);
      assertSame(await allKeys(store), [...long, wide], "The keys");
    });

    suite.test("every character of a value is preserved", async ({ store }) => {
      const texts = [
        "",
        " ",
        '"',
        "\\u0000",
        "\u0001\u001f\u007f",
        "\r\n",
        "é e\u0301",
        "\u{1f600}",
        "\u{fffe}\u{ffff}",
      ];
      // The JSON of a NUL and of a lone surrogate is an escape sequence in ASCII.
      texts.push("\u{feff}", JSON.stringify("\u0000"), JSON.stringify("\ud800"));
      texts.push("x".repeat(1_000_000), "é".repeat(300_000));
      const puts = texts.map((value, n) => ({ key: `k${n}`, value, refs: n % 2 ? value.slice(0, 99) : "" }));
      await store.commit({ puts });
      for (const [n, put] of puts.entries()) assertSame(await getOne(store, put.key), put, `Record ${n}`);
    });

    suite.test("a list is in the order of the keys' UTF-8 bytes", async ({ store }) => {
      await put(store, [...BYTE_ORDER].reverse());
      assert.deepEqual(await allKeys(store), BYTE_ORDER);
      const back = await store.list(EVERYTHING, { limit: 100, reverse: true });
      assert.deepEqual(keysOf(back), [...BYTE_ORDER].reverse());
      const part = await store.list({ from: "日", to: "\u{1f600}" }, { limit: 100 });
      assert.deepEqual(keysOf(part), ["日", "\u{ff5e}", "\u{fffd}", "\u{10000}"]);
    });

    suite.test("a range includes its start and excludes its end", async ({ store }) => {
      await put(store, ["a", "b", "b/1", "b/2", "c"]);
      const keys = async (from: string, to: string): Promise<string[]> =>
        keysOf(await store.list({ from, to }, { limit: 10 }));
      assert.deepEqual(await keys("b", "c"), ["b", "b/1", "b/2"]);
      assert.deepEqual(await keys("b/", "b0"), ["b/1", "b/2"]);
      assert.deepEqual(await keys("b/1", "b/1"), []);
      assert.deepEqual(await keys("c", "a"), []);
      assert.deepEqual(await keys("d", "z"), []);
      assert.deepEqual(await keys(prefixRange("b/").from, prefixRange("b/").to), ["b/1", "b/2"]);
    });

    suite.test("a limit returns the first records in the direction of the read", async ({ store }) => {
      await put(store, ["a", "b", "c", "d"]);
      const keys = async (limit: number, reverse: boolean): Promise<string[]> =>
        keysOf(await store.list({ from: "a", to: "d" }, { limit, reverse }));
      assert.deepEqual(await keys(2, false), ["a", "b"]);
      assert.deepEqual(await keys(2, true), ["c", "b"]);
      assert.deepEqual(await keys(3, true), ["c", "b", "a"]);
      assert.deepEqual(await keys(99, false), ["a", "b", "c"]);
      assert.deepEqual(await keys(0, false), []);
      assert.deepEqual(await keys(0, true), []);
    });

    suite.test("a long range can be read page by page, forwards and backwards", async ({ store }) => {
      const keys = Array.from({ length: 250 }, (_, n) => `k/${String(n).padStart(4, "0")}`);
      await put(store, keys);
      const forwards = await listAll(store, prefixRange("k/"), 7);
      assert.deepEqual(keysOf(forwards), keys);
      const backwards: string[] = [];
      for (let to = "k0"; ; to = backwards.at(-1) as string) {
        const page = await store.list({ from: "k/", to }, { limit: 7, reverse: true });
        backwards.push(...keysOf(page));
        if (page.length < 7) break;
      }
      assert.deepEqual(backwards, [...keys].reverse());
    });

    suite.test("a list returns values and refs", async ({ store }) => {
      await store.commit({ puts: [{ key: "k", value: "1", refs: "0+1" }] });
      assert.deepEqual(await store.list(EVERYTHING, { limit: 1 }), [{ key: "k", value: "1", refs: "0+1" }]);
    });

    suite.test("a deleted record is not returned, and its key can be reused", async ({ store }) => {
      await store.commit({ puts: [{ key: "k", value: "1", refs: "0+1" }] });
      await store.commit({ deletes: ["k", "never there"] });
      assert.deepEqual(await store.get(["k"]), [undefined]);
      assert.deepEqual(await allKeys(store), []);
      await store.commit({ puts: [{ key: "k", value: "2", ifAbsent: true }] });
      assert.deepEqual(await getOne(store, "k"), { key: "k", value: "2", refs: "" });
    });

    suite.test("deleting a range includes its start and excludes its end", async ({ store }) => {
      await put(store, [...BYTE_ORDER, "b", "b/1", "b/\u{1f600}", "b0"]);
      await store.commit({ deletes: [prefixRange("b/"), { from: "z", to: "\u{10000}" }, { from: "Z", to: "A" }] });
      assert.deepEqual(await allKeys(store), ["A", "Z", "a", "b", "b0", "\u{10000}", "\u{1f600}"]);
    });

    suite.test("the deletes of a commit are applied before its puts", async ({ store }) => {
      await put(store, ["k/1", "k/2"]);
      await store.commit({ deletes: [prefixRange("k/"), "l"], puts: putsOf({ "k/2": "new", l: "new" }) });
      const found = await store.list(EVERYTHING, { limit: 10 });
      assert.deepEqual(found, [
        { key: "k/2", value: "new", refs: "" },
        { key: "l", value: "new", refs: "" },
      ]);
    });
  });
}

/** Puts a record for each key, with the key as its value. */
async function put(store: Store, keys: readonly string[]): Promise<void> {
  await store.commit({ puts: keys.map((key) => ({ key, value: JSON.stringify(key) })) });
}

async function allKeys(store: Store): Promise<string[]> {
  return keysOf(await store.list(EVERYTHING, { limit: 1_000 }));
}
