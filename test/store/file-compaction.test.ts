/** A file store rewrites files that are mostly dead bytes automatically, in the background. */
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { openFileStore, type Store } from "../../src/store.js";
import { withTestHooks } from "../../src/store/shared/test-hooks.js";
import { until } from "../support/until.mjs";
import { makeFolder, removeFolder } from "./temporary-folder.js";

let folder: string;
beforeEach(async () => {
  folder = await makeFolder();
});
afterEach(() => removeFolder(folder));

function bytesOnDisk(path = folder): number {
  return readdirSync(path, { withFileTypes: true }).reduce((sum, entry) => {
    const inside = join(path, entry.name);
    return sum + (entry.isDirectory() ? bytesOnDisk(inside) : statSync(inside).size);
  }, 0);
}

it("a file store compacts itself after many small commits, also if its first commits left nothing to compact", async () => {
  const store = await openFileStore(join(folder, "store"), { durability: "process" });
  // Nothing to compact yet.
  for (let n = 0; n < 3; n++) await store.commit({ puts: [{ key: "small", value: String(n) }] });
  for (let n = 0; n < 80; n++) await store.commit({ puts: [{ key: "large", value: `${n} `.padEnd(100_000, "x") }] });
  await until(async () => {
    await store.commit({ puts: [{ key: "small", value: "again" }] });
    return bytesOnDisk() < 2_000_000;
  }, "the dead bytes to be removed");
  expect((await store.get(["large"]))[0]).toMatchObject({ value: "79 ".padEnd(100_000, "x") });
  await store.close();
});

/** Puts 8 MB of records into the file of a tape. */
async function fillTape(store: Store): Promise<void> {
  for (let n = 0; n < 80; n++) {
    const puts = [{ key: `k/${n}`, value: "1".padEnd(100_000, " ") }];
    await store.commit({ puts, items: [{ tape: "t", first: n, items: [{ json: "1", refs: "" }] }] });
  }
}

/** Removes these records. The removal is in another file. */
async function removeRecords(store: Store): Promise<void> {
  await store.commit({ deletes: [{ from: "k/", to: "k0" }], puts: [{ key: "small", value: "1" }] });
}

const tapeBytes = (): number => statSync(join(folder, "store", "tapes", "t-t.jsonl")).size;

it("a file store compacts a file whose lines became dead by a commit to another file", async () => {
  const store = await openFileStore(join(folder, "store"), { durability: "process" });
  await fillTape(store);
  await removeRecords(store);
  await until(() => tapeBytes() < 100_000, "the file of the tape to be compacted");
  expect(await store.items([{ tape: "t", start: 79, count: 1 }])).toEqual([{ json: "1", refs: "" }]);
  await store.close();
});

it("a file store compacts a file that was mostly dead when it was opened", async () => {
  const path = join(folder, "store");
  const failing = withTestHooks({ probe: failAt("replace:written") }, { onBackgroundFailure: () => {} });
  const first = await openFileStore(path, failing);
  await fillTape(first);
  await removeRecords(first);
  await first.close();
  expect(tapeBytes()).toBeGreaterThan(8_000_000);
  const store = await openFileStore(path, { durability: "process" });
  await store.commit({ puts: [{ key: "other", value: "1" }] });
  await until(() => tapeBytes() < 100_000, "the file of the tape to be compacted");
  await store.close();
});

it("a file store compacts a file with a later commit if that failed before", async () => {
  let failures = 0;
  let isFailing = true;
  const fail = failAt("replace:written");
  const probe = (point: string): void => {
    if (isFailing) fail(point);
  };
  const onBackgroundFailure = (): void => void failures++;
  const path = join(folder, "store");
  const store = await openFileStore(path, withTestHooks({ probe }, { durability: "process", onBackgroundFailure }));
  await fillTape(store);
  await removeRecords(store);
  await until(() => failures > 0, "the compaction to fail");
  expect(tapeBytes()).toBeGreaterThan(8_000_000);
  isFailing = false;
  await store.commit({ puts: [{ key: "other", value: "1" }] });
  await until(() => tapeBytes() < 100_000, "the file of the tape to be compacted");
  await store.close();
});

function failAt(failing: string): (point: string) => void {
  return (point) => {
    if (point === failing) throw new Error("The disk is full.");
  };
}
