/** Stores of an older format are upgraded, or rejected without a change. */
import { describe, expect, it } from "vitest";
import { openDatabase, type SqliteDatabase } from "../../src/store/sqlite/driver.js";
import { migrate } from "../../src/store/sqlite/schema.js";

const FIRST = ["CREATE TABLE savepoint_one (a)"];
const SECOND = [...FIRST, "CREATE TABLE savepoint_two (b)"];

function tablesOf(database: SqliteDatabase): string[] {
  const rows = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").all();
  return (rows as { name: string }[]).map(({ name }) => name);
}

describe("the format of a SQLite store", () => {
  it("is upgraded once, and existing data stays", async () => {
    const database = await openDatabase(":memory:");
    migrate(database, "sqlite:x", { allowOtherTables: false, create: true, migrations: FIRST });
    database.exec("INSERT INTO savepoint_one VALUES (7)");
    for (let times = 0; times < 2; times++) {
      migrate(database, "sqlite:x", { allowOtherTables: false, create: true, migrations: SECOND });
    }
    expect(tablesOf(database)).toEqual(["savepoint_meta", "savepoint_one", "savepoint_two"]);
    expect(database.prepare("SELECT a FROM savepoint_one").all()).toEqual([{ a: 7 }]);
    database.close();
  });

  it("is not upgraded, and no store is created, with `create: false`", async () => {
    const database = await openDatabase(":memory:");
    const existing = { allowOtherTables: false, create: false };
    expect(() => migrate(database, "sqlite:x", existing)).toThrow(expect.objectContaining({ code: "STORE_NOT_FOUND" }));
    expect(tablesOf(database)).toEqual([]);
    migrate(database, "sqlite:x", { allowOtherTables: false, create: true, migrations: FIRST });
    const refusal = expect.objectContaining({ code: "STORE_TOO_OLD", details: { found: 2, known: 3 } }) as Error;
    expect(() => migrate(database, "sqlite:x", { ...existing, migrations: SECOND })).toThrow(refusal);
    expect(tablesOf(database)).toEqual(["savepoint_meta", "savepoint_one"]);
    migrate(database, "sqlite:x", { ...existing, migrations: FIRST });
    database.close();
  });

  it("is rejected with advice, and not changed, if it was never released", async () => {
    const database = await openDatabase(":memory:");
    database.exec("CREATE TABLE savepoint_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID");
    database.exec("INSERT INTO savepoint_meta VALUES ('schema', '1')");
    for (const create of [true, false]) {
      expect(() => migrate(database, "sqlite:x", { allowOtherTables: false, create })).toThrow(
        expect.objectContaining({
          code: "STORE_TOO_OLD",
          details: { found: 1, known: 2 },
          message: expect.stringContaining("savepoint export") as string,
        }),
      );
    }
    expect(tablesOf(database)).toEqual(["savepoint_meta"]);
    database.close();
  });
});
