/** `readOnly: true` of the store of plain files: it reads every store, and changes nothing at all. */
import { appendFileSync, cpSync, lstatSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openStore, type Store } from "../../src/store.js";
import { codeOf } from "../run/lab.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

let folder: string;
let path: string;
let writer: Store;
beforeEach(async () => {
  folder = await makeFolder();
  path = join(folder, "store");
  writer = await openStore(`file:${path}`);
  await put(1);
});
afterEach(async () => {
  await writer.close();
  await removeFolder(folder);
});

async function put(n: number): Promise<void> {
  const items = [{ tape: "t", first: n, items: [{ json: String(n), refs: "" }] }];
  await writer.commit({ puts: [{ key: "k", value: String(n) }], items });
}

const openReadOnly = (at = path): Promise<Store> => openStore(`file:${at}`, { readOnly: true });
const read = async (store: Store): Promise<unknown> => (await store.get(["k"]))[0];

/** All names, contents and times in a folder. */
function snapshot(at: string): unknown[] {
  return [".", ...readdirSync(at, { recursive: true, encoding: "utf8" })].sort().map((name) => {
    const stats = lstatSync(join(at, name), { bigint: true });
    const content = stats.isFile() ? readFileSync(join(at, name), "latin1") : "";
    return [name, stats.mtimeNs, stats.ctimeNs, stats.mode, content];
  });
}

describe("a read-only store of files", () => {
  it("reads a store without changing anything", async () => {
    await writer.close();
    const before = snapshot(path);
    const store = await openReadOnly();
    expect(await read(store)).toMatchObject({ value: "1" });
    expect(await store.items([{ tape: "t", start: 1, count: 1 }])).toEqual([{ json: "1", refs: "" }]);
    await store.close();
    expect(snapshot(path)).toEqual(before);
  });

  it("reads the copy of a store whose process was killed while it wrote, without repairing it", async () => {
    const copy = join(folder, "copy");
    cpSync(path, copy, { recursive: true });
    appendFileSync(join(copy, "tapes", "t-t.jsonl"), '{"put":"k","at":2,"val');
    appendFileSync(join(copy, "commits.jsonl"), '{"file":"t-');
    const before = snapshot(copy);
    const store = await openReadOnly(copy);
    expect(await read(store)).toMatchObject({ value: "1" });
    await store.close();
    expect(snapshot(copy)).toEqual(before);
  });

  it("sees the saves of a process that is writing", async () => {
    const store = await openReadOnly();
    await put(2);
    expect(await read(store)).toMatchObject({ value: "2" });
    const before = snapshot(path);
    await store.get(["k"]);
    await store.close();
    expect(snapshot(path)).toEqual(before);
  });

  it("reads a store without its empty folders, which git does not keep", async () => {
    await writer.close();
    for (const name of ["lock", "blobs"]) rmSync(join(path, name), { recursive: true });
    const before = snapshot(path);
    const store = await openReadOnly();
    expect(await read(store)).toMatchObject({ value: "1" });
    await store.close();
    expect(snapshot(path)).toEqual(before);
  });

  it("is not created", async () => {
    expect(await codeOf(openReadOnly(join(folder, "none")))).toBe("STORE_NOT_FOUND");
    mkdirSync(join(folder, "empty"));
    expect(await codeOf(openReadOnly(join(folder, "empty")))).toBe("STORE_NOT_FOUND");
    expect(readdirSync(join(folder, "empty"))).toEqual([]);
  });
});
