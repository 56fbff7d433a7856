export { openFileStore } from "./file/store.js";
export { openMemoryStore } from "./memory.js";
export { openStore, type StoreOptions } from "./open.js";
export {
  type PostgresClient,
  type PostgresPool,
  type PostgresResult,
  type PostgresValue,
} from "./postgres/driver.js";
export type { PostgresOptions, PostgresTarget } from "./postgres/options.js";
export { openPostgresStore } from "./postgres/store.js";
export type { SqliteDatabase, SqliteStatement, SqliteValue } from "./sqlite/driver.js";
export type { DiskOptions, Durability } from "./options.js";
export type { SqliteOptions, SqliteTarget } from "./sqlite/options.js";
export { openSqliteStore } from "./sqlite/store.js";
export { prefixRange } from "./store.js";
export type * from "./store.js";
