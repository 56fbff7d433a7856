import { dirname, join } from "node:path";
import { describe, it } from "vitest";
import { storeConformance } from "savepoint/testing";
import { openSqliteStore, openStore } from "../../src/store.js";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import { WRITE_POINTS } from "../../src/store/sqlite/options.js";
import { damageSqlite } from "./sqlite-damage.js";
import { makeFolder, removeFolder } from "./temporary-folder.js";
import { runs } from "../support/runs.js";

describe("sqlite: a file", () => {
  storeConformance(
    {
      async setup() {
        const location = join(await makeFolder(), "store.db");
        const store = await openStore(`sqlite:${location}`);
        return { store, location, teardown: () => removeFolder(dirname(location)) };
      },
      reopen: (location) => openSqliteStore(location),
      async damage(location, target, how) {
        const database = await openDatabase(location);
        damageSqlite(database, target, how);
        database.close();
      },
      crash: { module: new URL("./sqlite-crash.mjs", import.meta.url).href, points: WRITE_POINTS.slice(-2) },
    },
    { describe, it },
    { rounds: runs(6, 1) },
  );
});
