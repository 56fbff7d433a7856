export type * from "./contract/index.js";
export {
  type BackgroundFailure,
  type BlobUse,
  type Check,
  type Commit,
  type CommitResult,
  type DiskOptions,
  DOCUMENTS_PER_SOURCE,
  type Durability,
  type Frame,
  type ItemBatch,
  type ItemSpan,
  type KeyRange,
  type Mark,
  prefixRange,
  type Put,
  type SourceUpdate,
  type Store,
  type StoredRecord,
  type TextIndex,
  type TextSource,
  type Unreadable,
  type UnreadableRecord,
} from "./contract/index.js";
export { findStore } from "./find.js";
export { openMemoryStore } from "./memory/index.js";
export { openStore, type OpenTarget, openTarget, type StoreOptions } from "./open.js";
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
  type RecordResult,
  nextPageSize,
  openScanTextIndex,
  scan,
  scanPages,
} from "./shared/index.js";
export type { SqliteDatabase, SqliteOptions, SqliteStatement, SqliteTarget, SqliteValue } from "./sqlite/index.js";
