// A database handle that reports every statement that may change something, after it has run. Collecting garbage
// and indexing pass few of the named points of a write, or none: here a process can die between any two statements.
import { DatabaseSync } from "@photostructure/sqlite";

const CHANGES =
  /^\s*(BEGIN IMMEDIATE|COMMIT|INSERT|UPDATE|DELETE|CREATE|DROP|PRAGMA (incremental_vacuum|wal_checkpoint))/;

/** @param {string} path @param {(point: string) => void} point @returns {import("savepoint").SqliteDatabase} */
export function openTelling(path, point) {
  const database = new DatabaseSync(path);
  return {
    exec: (sql) => database.exec(sql),
    close: () => database.close(),
    prepare: (sql) => {
      const statement = database.prepare(sql);
      const name = CHANGES.test(sql) ? sql.replaceAll(/\s+/g, " ").trim().slice(0, 60) : undefined;
      /** @template T @param {T} result */
      const told = (result) => {
        if (name !== undefined) point(name);
        return result;
      };
      return {
        run: (...values) => told(statement.run(...values)),
        get: (...values) => told(statement.get(...values)),
        all: (...values) => told(statement.all(...values)),
      };
    },
  };
}
