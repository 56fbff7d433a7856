/** The catalog file of a `file:` store: what it saves, and that nothing depends on it. */
import {
  appendFileSync,
  existsSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { openFileStore, type Store } from "../../src/store.js";
import { CatalogFile } from "../../src/store/file/catalog-file.js";
import * as scans from "../../src/store/file/file-scan.js";
import { makeMemoryFolder, removeFolder } from "./temporary-folder.js";

const KEYS = { from: "k", to: "l" };
let parent = "";
let folder = "";
let catalog = "";

beforeEach(() => {
  parent = makeMemoryFolder();
  folder = join(parent, "store");
  catalog = join(folder, "catalog.jsonl");
  vi.restoreAllMocks();
});

afterEach(() => removeFolder(parent));

const open = (readOnly = false): Promise<Store> =>
  openFileStore(folder, readOnly ? { readOnly, create: false } : { durability: "process" }, { minIndexedBytes: 0 });

/** Writes records and items of several tapes, and closes the store. */
async function fill(tapes = 3, items = 300): Promise<void> {
  const store = await open();
  for (let tape = 0; tape < tapes; tape++) {
    for (let item = 0; item < items; item += 50) {
      const frames = Array.from({ length: 50 }, (_, n) => ({ json: JSON.stringify([tape, item + n]), refs: "" }));
      const puts = [
        { key: `k${tape}-${String(item).padStart(4, "0")}`, value: `"${tape} ${item}"` },
        { key: `k${tape}-last`, value: `"${item}"` },
      ];
      await store.commit({ puts, items: [{ tape: `t${tape}`, first: item, items: frames }] });
    }
  }
  await store.close();
}

/** Everything in the store, as a reader sees it. */
async function readAll(store: Store): Promise<unknown> {
  const tapes = await store.tapes({ from: "t", to: "u" });
  return {
    tapes,
    forward: await store.list(KEYS, { limit: 1000 }),
    reverse: await store.list(KEYS, { limit: 1000, reverse: true }),
    some: await store.list({ from: "k1", to: "k2" }, { limit: 3, reverse: true }),
    items: await Promise.all(tapes.map((tape) => store.items([{ tape, start: 200, count: tape === "t9" ? 0 : 100 }]))),
    refs: await Promise.all(tapes.map((tape) => store.itemRefs({ tape, start: 0, count: 300 }))),
    blobs: await store.blobs({ after: "", limit: 10 }),
    bytes: await store.bytesOf({ records: [KEYS], tapes: [{ from: "t", to: "u" }] }),
  };
}

/** What a reader sees with and without the catalog file, which must be the same; and whether files were scanned with it. */
async function compareReaders(): Promise<{ scans: number; contents: unknown }> {
  const scan = vi.spyOn(scans, "scanFile");
  const indexed = await open(true);
  const contents = await readAll(indexed);
  const count = scan.mock.calls.length;
  await indexed.close();
  const bytes = readFileSync(catalog);
  rmSync(catalog);
  const scanned = await open(true);
  expect(contents).toEqual(await readAll(scanned));
  await scanned.close();
  writeFileSync(catalog, bytes);
  return { scans: count, contents };
}

/** Changes a line of the catalog file, with a correct checksum. */
function forge(change: (text: string) => string): void {
  const lines = readFileSync(catalog, "utf8").trimEnd().split("\n");
  const [header = "", directory = "", ...blocks] = lines.map((line) => {
    const body = change(line.slice(0, line.lastIndexOf(',"sum":')));
    return `${body},"sum":${crc32(body)}}`;
  });
  const body = header
    .slice(0, header.lastIndexOf(',"sum":'))
    .replace(/"directory":\d+/, `"directory":${directory.length + 1}`);
  writeFileSync(catalog, `${[`${body},"sum":${crc32(body)}}`, directory, ...blocks].join("\n")}\n`);
}

describe("a reader of a store with a catalog file", () => {
  it("scans no file, and returns the same as a scan", async () => {
    await fill();
    expect((await compareReaders()).scans).toBe(0);
  });

  it("decodes only the blocks that it needs", async () => {
    await fill(20, 300);
    const find = vi.spyOn(CatalogFile.prototype, "record");
    const parse = vi.spyOn(JSON, "parse");
    const store = await open(true);
    parse.mockClear();
    await store.get(["k7-0050"]);
    expect(find).toHaveBeenCalled();
    // One block, the header of the data file, and the record itself.
    expect(parse.mock.calls.length).toBeLessThanOrEqual(4);
    await store.close();
  });

  it("returns commits, deletions and freed items since the file was written", async () => {
    await fill();
    const before = readFileSync(catalog);
    const store = await open();
    await store.commit({
      puts: [
        { key: "k1-last", value: '"newer"' },
        { key: "k1-zzz", value: "1" },
      ],
      deletes: ["k0-0050"],
    });
    await store.commit({ deletes: [{ from: "k2-0050", to: "k2-0200" }] });
    await store.commit({ puts: [{ key: "k2-0100", value: '"again"' }] });
    await store.commit({ items: [{ tape: "t9", first: 0, items: [{ json: "9", refs: "" }] }] });
    await store.retain("t1", [{ start: 200, count: 100 }], { below: 300 });
    await store.close();
    writeFileSync(catalog, before);
    const { scans: count, contents } = await compareReaders();
    // Only the two files that have grown.
    expect(count).toBeLessThanOrEqual(3);
    expect(JSON.stringify(contents)).toContain("again");
  });

  it("accepts commits that a dead process has not added to the log", async () => {
    await fill();
    const log = join(folder, "commits.jsonl");
    const size = statSync(log).size;
    const saved = readFileSync(catalog);
    const store = await open();
    await store.commit({ puts: [{ key: "k1-last", value: '"newer"' }] });
    await store.close();
    truncateSync(log, size);
    writeFileSync(catalog, saved);
    const { contents } = await compareReaders();
    expect(JSON.stringify(contents)).toContain("newer");
  });

  it("writes first after a scan of all files", async () => {
    await fill();
    const store = await open();
    await store.get(["k1-last"]);
    const scan = vi.spyOn(scans, "scanFile");
    await store.commit({ puts: [{ key: "k1-last", value: '"newer"' }] });
    expect(scan.mock.calls.length).toBeGreaterThanOrEqual(3);
    await store.close();
  });
});

describe("a catalog file that does not describe the store", () => {
  beforeEach(() => fill());

  it("is not used if any of its bytes is damaged", async () => {
    const bytes = readFileSync(catalog);
    const store = await open(true);
    const contents = await readAll(store);
    await store.close();
    for (let at = 3; at < bytes.length; at += Math.ceil(bytes.length / 60)) {
      const damaged = Buffer.from(bytes);
      damaged[at] = (damaged[at] as number) ^ 1;
      writeFileSync(catalog, damaged);
      const reader = await open(true);
      expect(await readAll(reader)).toEqual(contents);
      await reader.close();
    }
    for (const length of [0, 1, 100, bytes.length >> 1, bytes.length - 1]) {
      writeFileSync(catalog, bytes.subarray(0, length));
      const reader = await open(true);
      expect(await readAll(reader)).toEqual(contents);
      await reader.close();
    }
  });

  it.each([
    ["wrong places", (text: string) => text.replaceAll(/\["(k\d-\d+)",(\d+),(\d+),/g, '["$1",$2,9,')],
    ["places outside of the files", (text: string) => text.replaceAll(/,(\d+),(\d+),0\]/g, ",999999999,$2,0]")],
    ["files that do not exist", (text: string) => text.replaceAll(/\["(k\d-\d+)",\d+,/g, '["$1",77,')],
    ["names that lead out of the folder", (text: string) => text.replaceAll("t-t1", "../../t1")],
    ["keys in the wrong order", (text: string) => text.replaceAll('["k0-0050"', '["k9-0050"')],
  ])("is not used if it has %s, whatever its checksums", async (_, change) => {
    const before = readFileSync(catalog, "utf8");
    forge(change);
    expect(readFileSync(catalog, "utf8")).not.toBe(before);
    await compareReaders();
  });

  it("is not used if it is too long to be held in memory", async () => {
    truncateSync(catalog, 3 * 2 ** 30);
    const reader = await open(true);
    expect(await reader.get(["k1-last"])).toMatchObject([{ value: '"250"' }]);
    await reader.close();
  });

  it("does not hide items: an item that it lacks is searched for in the files", async () => {
    forge((text) => text.replaceAll(/,\[220,\d+,\d+,\d+,\d+,0\]/g, ""));
    expect(readFileSync(catalog, "utf8")).not.toContain("[220,");
    const reader = await open(true);
    expect(await reader.items([{ tape: "t1", start: 220, count: 1 }])).toEqual([{ json: "[1,220]", refs: "" }]);
    await reader.close();
  });

  it.each([
    ["a file is shorter", () => truncateSync(join(folder, "tapes", "t-t1.jsonl"), 5000)],
    ["a file is longer", () => appendFileSync(join(folder, "tapes", "t-t1.jsonl"), "{}\n")],
    ["a file is missing", () => rmSync(join(folder, "tapes", "t-t1.jsonl"))],
    ["the log is missing", () => rmSync(join(folder, "commits.jsonl"))],
    ["the end of the log is damaged", () => appendFileSync(join(folder, "commits.jsonl"), "{}\n")],
  ])("is not used if %s", async (_, change) => {
    change();
    const { scans: count } = await compareReaders();
    expect(count).toBeGreaterThanOrEqual(2);
  });

  it("does not hide damage: a damaged line is reported like in a scan", async () => {
    const path = join(folder, "tapes", "t-t1.jsonl");
    const bytes = readFileSync(path);
    const at = bytes.indexOf('"1 100"');
    bytes[at + 1] = (bytes[at + 1] as number) ^ 1;
    writeFileSync(path, bytes);
    const { contents } = await compareReaders();
    expect(JSON.stringify(contents)).toContain("unreadable");
    const store = await open(true);
    expect(await store.check?.()).toHaveLength(1);
    await store.close();
  });
});

describe("the catalog file", () => {
  it("is not written by readers, nor for small stores", async () => {
    const store = await openFileStore(folder);
    await store.commit({ puts: [{ key: "k", value: "1" }] });
    await store.close();
    expect(existsSync(catalog)).toBe(false);
    await fill();
    rmSync(catalog);
    const before = readdirSync(folder);
    const reader = await open(true);
    await readAll(reader);
    await reader.close();
    expect(readdirSync(folder)).toEqual(before);
  });

  it("does not keep names of what was removed and compacted", async () => {
    await fill();
    expect(readFileSync(catalog, "utf8")).toContain("k2-0050");
    const store = await open();
    await store.commit({ deletes: [{ from: "k2", to: "k3" }] });
    await store.compact();
    expect(readFileSync(catalog, "utf8")).not.toContain("k2-0050");
    await store.close();
    expect((await compareReaders()).scans).toBe(0);
  });
});
