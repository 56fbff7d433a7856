export { type Duration, MAX_TIMER, toMilliseconds } from "./duration.js";
export { fileFailure, isMissing } from "./file-errors.js";
export { Intervals, type Span } from "./intervals.js";
export { createListing, type Listing, take } from "./listing.js";
export {
  describeProcess,
  isCertainlyDead,
  isComparable,
  isUnknownPid,
  type ProcessIdentity,
  thisProcess,
} from "./process-identity.js";
export { LruMap } from "./lru-map.js";
export { Mutex } from "./mutex.js";
export { readAhead } from "./read-ahead.js";
export { replaceFile, replaceFileSync, syncFolder, syncFolderSync, targetOfTemporary } from "./replace-file.js";
export { retryOnConflict, type RetryOnConflictOptions } from "./retry-on-conflict.js";
export { runAtOnce, runInTurns, type Slices } from "./slices.js";
export { SyncPace } from "./sync-pace.js";
export { checkCount, checkFields, checkRecord, invalidArgument, toTime } from "./validate.js";
export { writeBytes } from "./write-bytes.js";
