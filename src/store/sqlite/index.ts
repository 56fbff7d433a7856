export type { SqliteDatabase, SqliteStatement, SqliteValue } from "./driver.js";
export type { SqliteOptions, SqliteTarget } from "./options.js";
export { openSqliteStore } from "./store.js";
