/** `savepoint/store`: the store contract, the four stores, and the structural types of their drivers. */
export type * from "./store/contract/index.js";
export { DOCUMENTS_PER_SOURCE, prefixRange } from "./store/contract/index.js";
export { openFileStore } from "./store/file/index.js";
export { openMemoryStore } from "./store/memory/index.js";
export { openStore, type StoreOptions } from "./store/index.js";
export {
  openPostgresStore,
  type PostgresClient,
  type PostgresOptions,
  type PostgresPool,
  type PostgresResult,
  type PostgresTarget,
  type PostgresValue,
  type Statement,
} from "./store/postgres/index.js";
export {
  openSqliteStore,
  type SqliteDatabase,
  type SqliteOptions,
  type SqliteStatement,
  type SqliteTarget,
  type SqliteValue,
} from "./store/sqlite/index.js";
