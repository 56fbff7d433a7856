/**
 * The SQLite store: one file in WAL mode that several processes share. A commit that has resolved is in the WAL on disk and
 * visible to every process. See `store.ts` for its parts.
 */
export type { SqliteDatabase, SqliteStatement, SqliteValue } from "./driver.js";
export { openSqliteStore } from "./open.js";
export type { SqliteOptions, SqliteTarget } from "./options.js";
