/** The index in memory: it passes the tests of those that stores have of their own, and it is exact. */
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { openMemoryStore, openSqliteStore, type Store } from "../../src/store.js";
import { openScanTextIndex } from "../../src/store/shared/scan-text-index.js";
import { DOCUMENTS_PER_SOURCE } from "../../src/store/contract/text-index.js";
import type { StoreHarness } from "../../src/testing/harness.js";
import { textChangesSpec } from "../../src/testing/specs/text-changes.js";
import { textSpec } from "../../src/testing/specs/texts.js";
import { Suite } from "../../src/testing/suite.js";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import { damageSqlite } from "./sqlite-damage.js";
import { makeFolder, removeFolder } from "./temporary-folder.js";

const harnesses: Record<string, StoreHarness> = {
  "a memory store": { setup: async () => ({ store: openMemoryStore(), teardown: async () => {} }) },
  "a file": {
    async setup() {
      const location = join(await makeFolder(), "store.db");
      return { store: await openSqliteStore(location), location, teardown: () => removeFolder(dirname(location)) };
    },
    reopen: (location) => openSqliteStore(location),
    async damage(location, target, how) {
      const database = await openDatabase(location);
      damageSqlite(database, target, how);
      database.close();
    },
  },
};

for (const [name, harness] of Object.entries(harnesses)) {
  describe(`an index in memory of ${name}`, () => {
    const suite = new Suite(harness, { describe, it });
    const open = (store: Store) => openScanTextIndex(store);
    textChangesSpec(suite, open);
    textSpec(suite, Math.floor(Math.random() * 2 ** 31), open);
  });
}

describe("an index in memory", () => {
  it("finds nothing but documents that contain the text", async () => {
    const texts = openScanTextIndex(openMemoryStore());
    const source = { name: "s", before: undefined, from: 0, texts: ["abcd", "abc bcd", "ABCD", "xabcdx"], note: "" };
    await texts.update({ sources: [source], marks: [] });
    const numbers = await texts.find("abcd", { below: Infinity, limit: 10 });
    expect(numbers.map((number) => number % DOCUMENTS_PER_SOURCE)).toEqual([3, 0]);
  });
});
