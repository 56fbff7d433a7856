/** A file store rewrites files that are mostly dead bytes automatically, in the background. */
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { openFileStore } from "../../src/store.js";
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
