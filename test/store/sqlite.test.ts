import { dirname, join } from "node:path";
import { describe, it } from "vitest";
import { storeConformance } from "savepoint/testing";
import { openSqliteStore, openStore, type SqliteDatabase } from "../../src/store/index.js";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import { WRITE_POINTS } from "../../src/store/sqlite/options.js";
import { damageSqlite } from "./sqlite-damage.js";
import { makeFolder, removeFolder } from "./temporary-folder.js";

const runner = { describe, it };

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
      crash: { module: new URL("./sqlite-crash.mjs", import.meta.url).href, points: WRITE_POINTS },
    },
    runner,
  );
});

describe("sqlite: in memory", () => {
  storeConformance({ setup: async () => ({ store: await openStore("sqlite::memory:"), teardown: async () => {} }) }, runner);
});

describe("sqlite: the caller's own handle", () => {
  const handles = new Map<string, SqliteDatabase>();
  let made = 0;
  storeConformance(
    {
      async setup() {
        const database = await openDatabase(":memory:");
        // The tables of an application, which is why it brings its handle.
        database.exec("CREATE TABLE invoice (id INTEGER PRIMARY KEY, total INTEGER); INSERT INTO invoice VALUES (1, 100)");
        const location = `handle ${++made}`;
        handles.set(location, database);
        const teardown = async (): Promise<void> => {
          handles.delete(location);
          database.close();
        };
        return { store: await openSqliteStore(database), location, teardown };
      },
      async damage(location, target, how) {
        damageSqlite(handles.get(location) as SqliteDatabase, target, how);
      },
    },
    runner,
  );
});
