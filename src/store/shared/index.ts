/**
 * Parts that several stores are built from: checksums, the commit queue, errors, iteration, and a text index in memory.
 * Everything that must be the same in every store (what a checksum covers, when commits share a sync) is here.
 */
export { checksum, checksumOfText, CHECKSUM_BYTES, isChecksum } from "./checksum.js";
export { CloseableStore, type ListOptions, type ReserveOptions, type RetainOptions } from "./closeable-store.js";
export { counterDamaged, type NumberedItems, numberItems, readCounter } from "./counter.js";
export { maxDecompressedSize } from "./decompression-limit.js";
export {
  commitConflict,
  type FailedCheck,
  storeClosed,
  storeNotFound,
  storeTooOld,
  storeUnsupported,
} from "./errors.js";
export { type CommitOutcome, GroupCommit } from "./group-commit.js";
export { TapeBounds } from "./long-span.js";
export { openScanTextIndex } from "./scan-text-index.js";
export { FIRST_PAGE_SIZE, nextPageSize, type RecordResult, scan, scanPages } from "./scan.js";
export { SEAL_MARKER, sealedBytes, sealedText } from "./sealed-text.js";
export { SortedKeys } from "./sorted-keys.js";
export { type SyncFile, TEST_HOOKS, type TestHooks, testHooksOf, withTestHooks } from "./test-hooks.js";
export { overrideStore, readOnlyView, storeReadOnly, type StoreOverrides, StoreSwitch } from "./store-view.js";
export { toIndexableText, toSearchableText } from "./text-normalization.js";
