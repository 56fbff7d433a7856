/** Bits that change on the disk, anywhere in the file: what is read is right, or is reported, and nothing crashes. */
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { isSavepointError } from "../../src/errors.js";
import { type Frame, openSqliteStore, type SqliteDatabase, type SqliteOptions, type Store } from "../../src/store.js";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import { makeFolder, removeFolder } from "./temporary-folder.js";
import { runs } from "../support/runs.js";

const ITEMS = 70;
const LOOSE = 5;
const BLOB_HASH = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"; // of "x"
const KEYS = ["counter", "k/1", "k/2", "k/é"];

let folder: string;
let file: string;
beforeEach(async () => {
  folder = await makeFolder();
  file = join(folder, "store.db");
  await make({});
});
afterEach(() => removeFolder(folder));

/** A store with something in it. */
async function make(options: SqliteOptions): Promise<void> {
  await rm(file, { force: true });
  const store = await openSqliteStore(file, { durability: "process", ...options });
  await fill(store);
  await store.close();
}

describe("a flipped bit", () => {
  it("anywhere in the file is noticed, or changes nothing that is read", async () => {
    const bytes = await readFile(file);
    const copy = join(folder, "damaged.db");
    const expected = await readAll(file);
    await fc.assert(
      fc.asyncProperty(fc.nat(bytes.length * 8 - 1), async (bit) => {
        const damaged = Buffer.from(bytes);
        damaged[bit >> 3] = (damaged[bit >> 3] as number) ^ (1 << (bit & 7));
        await writeFile(copy, damaged);
        for (const [what, found] of await readAll(copy)) {
          if (found !== LOST) expect({ what, found }).toEqual({ what, found: expected.get(what) });
        }
      }),
      { numRuns: runs(150, 12) },
    );
  });

  it("in a compressed chunk loses that chunk and nothing else", async () => {
    const database = await openDatabase(file);
    const store = await openSqliteStore(file);
    const { id, codec, body } = database
      .prepare("SELECT id, codec, body FROM savepoint_chunk WHERE count > 50")
      .get() as PackedRow;
    expect(codec).toBeGreaterThan(0);
    for (let at = 0; at < body.length; at += 5) {
      const damaged = Uint8Array.from(body);
      damaged[at] = (damaged[at] as number) ^ 0x80;
      database.prepare("UPDATE savepoint_chunk SET body = ? WHERE id = ?").run(damaged, id);
      const found = await store.items([{ tape: "t", start: 0, count: ITEMS }]);
      expect(found.filter((item) => "unreadable" in item)).toHaveLength(64);
      for (const [n, item] of found.entries()) if ("json" in item) expect(item).toEqual(itemOf(n));
    }
    await store.close();
    database.close();
  });

  it("in the text of a packed item that is not compressed loses that item only", async () => {
    await make({ compress: false });
    const database = await openDatabase(file);
    const store = await openSqliteStore(file);
    const { id, body } = database.prepare("SELECT id, body FROM savepoint_chunk WHERE count > 50").get() as PackedRow;
    for (let at = 0; at < body.length; at += 7) {
      const damaged = Uint8Array.from(body);
      damaged[at] = (damaged[at] as number) ^ 0x80;
      database.prepare("UPDATE savepoint_chunk SET body = ? WHERE id = ?").run(damaged, id);
      const found = await store.items([{ tape: "t", start: 0, count: ITEMS }]);
      expect(found.filter((item) => "unreadable" in item)).toHaveLength(1);
      for (const [n, item] of found.entries()) if ("json" in item) expect(item).toEqual(itemOf(n));
    }
    await store.close();
    database.close();
  });
});

/** A cell of another type or size than any store writes, as a flipped bit in a row's header makes it. */
describe("an invalid cell", () => {
  const cells: Record<string, string> = {
    "no number": "UPDATE savepoint_chunk SET count = 'x'",
    "a huge count": "UPDATE savepoint_chunk SET count = 1099511627776",
    "a number beyond those of the tape": `UPDATE savepoint_chunk SET first = 9223372036854775807 WHERE first = ${ITEMS}`,
    "a negative count": "UPDATE savepoint_chunk SET count = -1",
    "a number beyond all numbers": "UPDATE savepoint_chunk SET count = 9223372036854775807",
    "an unknown codec": "UPDATE savepoint_chunk SET codec = 77",
    "a codec that is a text": "UPDATE savepoint_blob SET codec = 'x'",
    "bytes that are a text": "UPDATE savepoint_chunk SET head = CAST(head AS TEXT), body = CAST(body AS TEXT)",
    "a blob that is a text": "UPDATE savepoint_blob SET body = CAST(body AS TEXT)",
    "a text that is bytes": "UPDATE savepoint_record SET value = CAST(value AS BLOB)",
    "refs that are bytes": "UPDATE savepoint_record SET refs = CAST(refs AS BLOB)",
    "a key that is bytes": "UPDATE savepoint_record SET key = CAST(key AS BLOB)",
    "a checksum that is a text": "UPDATE savepoint_record SET sum = 'abcdefgh'",
    "a checksum that is bytes": "UPDATE savepoint_chunk SET sum = x'12345678'",
    "a record that is another's":
      "UPDATE savepoint_record SET value = 'swapped', sum = (SELECT sum FROM savepoint_record WHERE key = 'k/1')",
    "an item that is another's": "UPDATE savepoint_chunk SET tape = 'u' WHERE tape = 't'",
  };
  for (const [what, sql] of Object.entries(cells)) {
    it(`is never read as intact data: ${what}`, async () => {
      const expected = await readAll(file);
      await damage((database) => database.exec(sql));
      for (const [place, found] of await readAll(file)) {
        if (found !== LOST) expect({ place, found }).toEqual({ place, found: expected.get(place) });
      }
    });
  }
});

interface PackedRow {
  readonly id: number;
  readonly codec: number;
  readonly body: Uint8Array;
}

function itemOf(n: number): Frame {
  return { json: JSON.stringify({ n, text: "é\u{1f600}x".repeat((n % 5) + 1) }), refs: n % 3 ? "" : `${n}+1` };
}

/** A packed chunk, loose ones behind it, records, a blob. */
async function fill(store: Store): Promise<void> {
  for (let n = 0; n < ITEMS; n++) await store.commit({ items: [{ tape: "t", first: n, items: [itemOf(n)] }] });
  await store.compact();
  for (let n = ITEMS; n < ITEMS + LOOSE; n++) {
    await store.commit({ items: [{ tape: "t", first: n, items: [itemOf(n)] }] });
  }
  await store.commit({
    puts: KEYS.map((key, n) => ({ key, value: JSON.stringify({ key, n }), refs: `${n}+1` })),
    blobs: [{ hash: BLOB_HASH, bytes: Buffer.from("x") }],
  });
}

const LOST = "lost";

/** Every thing by its place; what cannot be read is `LOST`. An error of ours loses all that was asked for. */
async function readAll(path: string): Promise<Map<string, unknown>> {
  const all = new Map<string, unknown>();
  let store: Store;
  try {
    store = await openSqliteStore(path);
  } catch (error) {
    if (isSavepointError(error)) return all;
    throw error;
  }
  const note = async (what: string, read: () => Promise<unknown>): Promise<void> =>
    all.set(what, await orLost(read)) && undefined;
  for (const key of KEYS) await note(`get ${key}`, async () => (await store.get([key]))[0]);
  await note("get all", async () => (await store.get(KEYS)).every(isReadable));
  for (const record of await orEmpty(() => store.list({ from: "", to: "\u{10ffff}" }, { limit: 100 }))) {
    all.set(`list ${record.key}`, isReadable(record) ? record : LOST);
  }
  for (let n = 0; n < ITEMS + LOOSE; n++) {
    await note(`item ${n}`, async () => (await store.items([{ tape: "t", start: n, count: 1 }]))[0]);
  }
  for (const [n, item] of (
    await orEmpty(() => store.items([{ tape: "t", start: 0, count: ITEMS + LOOSE }]))
  ).entries()) {
    all.set(`span ${n}`, isReadable(item) ? item : LOST);
  }
  await note("refs", () => store.itemRefs({ tape: "t", start: ITEMS, count: 1 }));
  await note("blob", () => store.blob(BLOB_HASH));
  await store.close();
  return all;
}

async function orLost(read: () => Promise<unknown>): Promise<unknown> {
  try {
    const found = await read();
    return isReadable(found) ? found : LOST;
  } catch (error) {
    if (isSavepointError(error)) return LOST;
    throw error;
  }
}

async function orEmpty<T>(read: () => Promise<T[]>): Promise<T[]> {
  try {
    return await read();
  } catch (error) {
    if (isSavepointError(error)) return [];
    throw error;
  }
}

/** A missing record counts as lost: in a damaged tree the two cannot be distinguished. */
function isReadable(found: unknown): boolean {
  return (
    found !== undefined && found !== false && !(typeof found === "object" && found !== null && "unreadable" in found)
  );
}

async function damage(work: (database: SqliteDatabase) => unknown): Promise<void> {
  const database = await openDatabase(file);
  work(database);
  database.close();
}
