/** Database handles of callers: the drivers that differ from the two of Savepoint in how they pass values. */
import type { SqliteDatabase, SqliteStatement, SqliteValue } from "./driver.js";

/** Shows how a driver returns bytes. */
const BYTES = "SELECT x'00' AS bytes";

/** A statement whose methods also take all values as one array. */
type ArrayStatement = Record<"run" | "get" | "all", (values: readonly SqliteValue[]) => unknown>;

/**
 * The handle itself, or one that behaves like the drivers of Savepoint. libSQL returns bytes as an `ArrayBuffer` from `all`, and takes a single
 * value that is an object for an object of named values.
 */
export function adaptHandle(database: SqliteDatabase): SqliteDatabase {
  const [row] = database.prepare(BYTES).all() as { readonly bytes?: unknown }[];
  if (!(row?.bytes instanceof ArrayBuffer)) return database;
  return {
    exec: (sql) => database.exec(sql),
    prepare: (sql) => adaptStatement(database.prepare(sql) as unknown as ArrayStatement),
    close: () => database.close(),
  };
}

function adaptStatement(statement: ArrayStatement): SqliteStatement {
  return {
    run: (...values) => statement.run(values) as { changes: number | bigint },
    get: (...values) => withBytes(statement.get(values)),
    all: (...values) => (statement.all(values) as unknown[]).map(withBytes),
  };
}

/** The row with bytes as a `Uint8Array`. The row is not shared, so it is changed in place. */
function withBytes(row: unknown): unknown {
  if (typeof row !== "object" || row === null) return row;
  const fields = row as Record<string, unknown>;
  for (const [name, value] of Object.entries(fields)) {
    if (value instanceof ArrayBuffer) fields[name] = new Uint8Array(value);
  }
  return row;
}
