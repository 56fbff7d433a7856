/**
 * LangGraph's own SqliteSaver, on the SQLite that Savepoint uses: the driver that it brings has to be compiled first, which
 * takes minutes and a compiler.
 */
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import { openDatabase, type SqliteDatabase, type SqliteValue } from "../../src/store/sqlite/driver.js";

type ItsDatabase = ConstructorParameters<typeof SqliteSaver>[0];

export async function openSqliteSaver(path: string): Promise<SqliteSaver> {
  const database = await openDatabase(path);
  return new SqliteSaver(withMore(database) as unknown as ItsDatabase);
}

type Given = SqliteValue | undefined;

const orNull = (value: Given): SqliteValue => value ?? null;

/** What its driver has beyond the common interface. */
function withMore(database: SqliteDatabase): object {
  return {
    prepare(sql: string) {
      const statement = database.prepare(sql);
      return {
        run: (...values: Given[]) => statement.run(...values.map(orNull)),
        get: (...values: Given[]) => statement.get(...values.map(orNull)),
        all: (...values: Given[]) => statement.all(...values.map(orNull)),
      };
    },
    exec: (sql: string) => database.exec(sql),
    close: () => database.close(),
    pragma: (text: string) => database.exec(`PRAGMA ${text}`),
    transaction:
      (work: (...args: unknown[]) => unknown) =>
      (...args: unknown[]): unknown => {
        database.exec("BEGIN");
        try {
          const result = work(...args);
          database.exec("COMMIT");
          return result;
        } catch (error) {
          database.exec("ROLLBACK");
          throw error;
        }
      },
  };
}
