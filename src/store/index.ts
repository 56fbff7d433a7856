/**
 * Stores: the contract, its four implementations, and how a URL becomes a store. Everything above depends only on the contract, so
 * the implementations are loaded when they are opened.
 */
export { compareKeys, covers, DOCUMENTS_PER_SOURCE, prefixRange } from "./contract/index.js";
export type * from "./contract/index.js";
export { findStore } from "./find.js";
export { openMemoryStore } from "./memory/index.js";
export { DRIVER_PACKAGES, openStore, type OpenTarget, openTarget, type StoreOptions } from "./open.js";
export type {
  PostgresClient,
  PostgresOptions,
  PostgresPool,
  PostgresResult,
  PostgresTarget,
  PostgresValue,
  Statement,
} from "./postgres/index.js";
export {
  FIRST_PAGE_SIZE,
  nextPageSize,
  openScanTextIndex,
  overrideStore,
  type RecordResult,
  scan,
  scanPages,
  SEAL_MARKER,
  sealedBytes,
  sealedText,
  StoreSwitch,
  TapeBounds,
} from "./shared/index.js";
export type { SqliteDatabase, SqliteOptions, SqliteStatement, SqliteTarget, SqliteValue } from "./sqlite/index.js";
