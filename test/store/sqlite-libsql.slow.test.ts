/** The conformance kit on a handle of libSQL that the caller opened. */
import Database from "libsql";
import { describe, it } from "vitest";
import { storeConformance } from "savepoint/testing";
import { openSqliteStore, type SqliteDatabase } from "../../src/store.js";
import { adaptHandle } from "../../src/store/sqlite/handle.js";
import { runs } from "../support/runs.js";
import { damageSqlite } from "./sqlite-damage.js";

describe("sqlite: a handle of libSQL", () => {
  const handles = new Map<string, SqliteDatabase>();
  let made = 0;
  storeConformance(
    {
      async setup() {
        const database = new Database(":memory:");
        const location = `handle ${++made}`;
        handles.set(location, adaptHandle(database));
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
});
