/** Stores that are killed at every point of a write; those of the other tests are killed at a few. */
import { dirname, join } from "node:path";
import { describe, it } from "vitest";
import { storeConformance, type StoreHarness } from "savepoint/testing";
import { WRITE_POINTS as FILE_POINTS } from "../../src/store/file/write-points.js";
import { openStore } from "../../src/store.js";
import { POSTGRES_WRITE_POINTS } from "../../src/store/postgres/options.js";
import { WRITE_POINTS as SQLITE_POINTS } from "../../src/store/sqlite/options.js";
import { damageFiles } from "./file-damage.js";
import { postgresHarness } from "./postgres-harness.js";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import { damageSqlite } from "./sqlite-damage.js";
import { makeFolder, removeFolder } from "./temporary-folder.js";

const moduleOf = (name: string): string => new URL(`./${name}-crash.mjs`, import.meta.url).href;

/** A store in a folder of its own. */
function inFolder(
  scheme: string,
  points: readonly string[],
  damage: NonNullable<StoreHarness["damage"]>,
): StoreHarness {
  return {
    async setup() {
      const location = join(await makeFolder(), "store");
      const store = await openStore(`${scheme}:${location}`);
      return { store, location, teardown: () => removeFolder(dirname(location)) };
    },
    reopen: (location) => openStore(`${scheme}:${location}`),
    damage,
    crash: { module: moduleOf(scheme), points },
  };
}

describe("sqlite:, wherever it is killed", () => {
  const damage: StoreHarness["damage"] = async (location, target, how) => {
    const database = await openDatabase(location);
    damageSqlite(database, target, how);
    database.close();
  };
  storeConformance(inFolder("sqlite", SQLITE_POINTS, damage), { describe, it });
});

describe("file:, wherever it is killed", () => {
  const damage: StoreHarness["damage"] = async (location, target, how) => damageFiles(location, target, how);
  storeConformance(inFolder("file", FILE_POINTS, damage), { describe, it });
});

describe("postgres:, wherever it is killed", () => {
  storeConformance(postgresHarness({ durability: "process" }, POSTGRES_WRITE_POINTS), { describe, it });
});

describe("postgres:, portable, wherever it is killed", () => {
  storeConformance(postgresHarness({ portable: true, durability: "process" }, POSTGRES_WRITE_POINTS), { describe, it });
});
