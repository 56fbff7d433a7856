/** How a store of an older format becomes one of this version, or stays what it is. */
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
  it("is brought up to date, once, without what is there being made again", async () => {
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

  it("stays what it is where it is wanted as it is", async () => {
    const database = await openDatabase(":memory:");
    const existing = { allowOtherTables: false, create: false };
    expect(() => migrate(database, "sqlite:x", existing)).toThrow(expect.objectContaining({ code: "STORE_NOT_FOUND" }));
    expect(tablesOf(database)).toEqual([]);
    migrate(database, "sqlite:x", { allowOtherTables: false, create: true, migrations: FIRST });
    const refusal = expect.objectContaining({ code: "STORE_TOO_OLD", details: { found: 1, known: 2 } }) as Error;
    expect(() => migrate(database, "sqlite:x", { ...existing, migrations: SECOND })).toThrow(refusal);
    expect(tablesOf(database)).toEqual(["savepoint_meta", "savepoint_one"]);
    migrate(database, "sqlite:x", { ...existing, migrations: FIRST });
    database.close();
  });
});
