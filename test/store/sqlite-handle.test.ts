import { describe, expect, it } from "vitest";
import { storeConformance } from "savepoint/testing";
import { openSqliteStore, type SqliteDatabase } from "../../src/store.js";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import { damageSqlite } from "./sqlite-damage.js";
import { runs } from "../support/runs.js";

/** The database of an application, with tables of its own. */
async function openApplication(): Promise<SqliteDatabase> {
  const database = await openDatabase(":memory:");
  database.exec("CREATE TABLE invoice (id INTEGER PRIMARY KEY, total INTEGER); INSERT INTO invoice VALUES (1, 100)");
  return database;
}

describe("sqlite: the caller's own handle", () => {
  const handles = new Map<string, SqliteDatabase>();
  let made = 0;
  storeConformance(
    {
      async setup() {
        const database = await openApplication();
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
    { describe, it },
    { rounds: runs(6, 1) },
  );

  it("leaves the caller's tables alone, and the handle open", async () => {
    const database = await openApplication();
    const store = await openSqliteStore(database);
    await store.commit({ puts: [{ key: "k", value: "1" }] });
    await store.close();
    expect(database.prepare("SELECT total FROM invoice").get()).toEqual({ total: 100 });
    const again = await openSqliteStore(database);
    expect(await again.get(["k"])).toEqual([{ key: "k", value: "1", refs: "" }]);
    await again.close();
    database.close();
  });
});
