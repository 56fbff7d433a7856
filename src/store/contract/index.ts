export type * from "./contract.js";
export {
  type BlobUse,
  type Check,
  type Commit,
  type CommitResult,
  type Frame,
  type Freed,
  type ItemRefs,
  type ItemBatch,
  type ItemSpan,
  prefixRange,
  type Put,
  type Store,
  type StoredRanges,
  type StoredRecord,
  type StoreProblem,
  type Unreadable,
  type UnreadableRecord,
} from "./contract.js";
export { compareKeys, covers, type KeyRange, lowerBound } from "./key-range.js";
export {
  type BackgroundFailure,
  createFailureReporter,
  busyTimeoutOf,
  type DiskOptions,
  type Durability,
  type SyncFile,
} from "./options.js";
export type * from "./text-index.js";
export {
  DOCUMENTS_PER_SOURCE,
  isSameSource,
  type Mark,
  type SourceUpdate,
  type TextIndex,
  type TextSource,
  type TextUpdate,
} from "./text-index.js";
