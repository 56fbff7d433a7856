/**
 * The conformance kit on the stores of the built package, for a runtime without vitest. `runtimes.test.ts` bundles it: Deno does not run
 * the sources. Arguments: the store, and the folder of the crash modules.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { storeConformance, type StoreHarness } from "savepoint/testing";
import { openFileStore, openMemoryStore, openSqliteStore } from "../../src/store.js";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import { damageFiles } from "../store/file-damage.js";
import { damageSqlite } from "../store/sqlite-damage.js";

const [kind = "", crashModules = ""] = process.argv.slice(2);
const root = mkdtempSync(join(tmpdir(), "savepoint-kit-"));
let made = 0;

/** The harness of a store on the disk. */
function durable(
  open: (location: string) => ReturnType<typeof openFileStore>,
  crashModule: string,
  damage: NonNullable<StoreHarness["damage"]>,
): StoreHarness {
  return {
    async setup() {
      const location = join(root, String(++made));
      return { store: await open(location), location, teardown: async () => {} };
    },
    reopen: open,
    damage,
    crash: { module: pathToFileURL(join(crashModules, crashModule)).href, points: [] },
  };
}

const HARNESSES: Readonly<Record<string, StoreHarness>> = {
  memory: { setup: async () => ({ store: openMemoryStore(), teardown: async () => {} }) },
  sqlite: durable(openSqliteStore, "sqlite-crash.mjs", async (location, target, how) => {
    const database = await openDatabase(location);
    damageSqlite(database, target, how);
    database.close();
  }),
  file: durable(openFileStore, "file-crash.mjs", async (location, target, how) => damageFiles(location, target, how)),
};

const tests: { readonly title: string; readonly run: () => Promise<void> }[] = [];
let group = "";
const runner = {
  describe(name: string, body: () => void): void {
    group = name;
    body();
  },
  it: (name: string, run: () => Promise<void>) => tests.push({ title: `${group}: ${name}`, run }),
};
storeConformance(HARNESSES[kind] as StoreHarness, runner, { rounds: 1 });
let failed = 0;
for (const { title, run } of tests) {
  try {
    await run();
  } catch (error) {
    failed++;
    console.log(`FAILED ${title}`);
    console.log(error);
  }
}
rmSync(root, { recursive: true, force: true });
console.log(`${tests.length - failed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
