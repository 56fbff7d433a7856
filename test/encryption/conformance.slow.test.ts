import { dirname, join } from "node:path";
import { describe, it } from "vitest";
import { type CrashHarness, storeConformance } from "savepoint/testing";
import { openFileStore, openSqliteStore } from "../../src/store.js";
import { WRITE_POINTS as FILE_WRITE_POINTS } from "../../src/store/file/write-points.js";
import { POSTGRES_WRITE_POINTS } from "../../src/store/postgres/options.js";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import { WRITE_POINTS } from "../../src/store/sqlite/options.js";
import { damageFiles } from "../store/file-damage.js";
import { postgresHarness } from "../store/postgres-harness.js";
import { damageSqlite } from "../store/sqlite-damage.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { runs } from "../support/runs.js";
import { encryptedHarness } from "./encrypted-harness.js";

/** @param points where the process is killed */
const crashIn = (kind: string, points: readonly string[]): CrashHarness => ({
  module: new URL(`./${kind}-crash.mjs`, import.meta.url).href,
  points,
});

const rounds = { rounds: runs(6, 1) };

describe("an encrypted SQLite store", () => {
  const harness = encryptedHarness({
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
    crash: crashIn("sqlite", WRITE_POINTS.slice(-1)),
  });
  storeConformance(harness, { describe, it }, rounds);
});

describe("an encrypted store of plain files", () => {
  const harness = encryptedHarness({
    async setup() {
      const location = join(await makeFolder(), "store");
      return { store: await openFileStore(location), location, teardown: () => removeFolder(dirname(location)) };
    },
    reopen: (location) => openFileStore(location),
    damage: async (location, target, how) => damageFiles(location, target, how),
    crash: crashIn("file", FILE_WRITE_POINTS.slice(-2)),
  });
  storeConformance(harness, { describe, it }, rounds);
});

describe("an encrypted PostgreSQL store", () => {
  const options = { durability: "power", onBackgroundFailure: () => {} } as const;
  const harness = { ...postgresHarness(options, []), crash: crashIn("postgres", POSTGRES_WRITE_POINTS.slice(1, 2)) };
  storeConformance(encryptedHarness(harness), { describe, it }, rounds);
});
