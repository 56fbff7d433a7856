/**
 * Small mechanisms that know nothing of sessions or stores, each of which exists only here: locks, caches, retries, files,
 * process identities, validation. This module imports no other module except `errors.ts`.
 */
export { type Duration, MAX_TIMER, toMilliseconds } from "./duration.js";
export { toFileError, isMissingFileError } from "./file-errors.js";
export { IntervalSet, type Span } from "./interval-set.js";
export { createListing, type Listing, limitEntries, toArray } from "./listing.js";
export {
  describeProcess,
  isCertainlyDead,
  sharesPidNamespace,
  isPidUnused,
  type ProcessIdentity,
  thisProcess,
} from "./process-identity.js";
export { LruMap } from "./lru-map.js";
export { addToList, getOrAdd, pickByKey } from "./maps.js";
export { Mutex } from "./mutex.js";
export { loadPackage, locatePackages, type PackagePaths, setPackagePaths } from "./packages.js";
export { partitionPoint } from "./partition-point.js";
export { readAhead } from "./read-ahead.js";
export {
  createFile,
  createFolders,
  PRIVATE_MODE,
  replaceFile,
  replaceFileSync,
  syncFolder,
  syncFolderSync,
  targetOfTemporary,
  writeBytes,
} from "./file-writing.js";
export { openRegularFile, readRegularFile, wrongKind } from "./regular-files.js";
export { retryOnConflict, unlessConflict } from "./retry-on-conflict.js";
export { runSlicesSync, runSlices, type Slices } from "./slices.js";
export { SyncPace } from "./sync-pace.js";
export { parentThread, startThread } from "./threads.js";
export { hideOwnFrames, withUserStack } from "./user-stack.js";
export {
  validateCount,
  validateFields,
  validateOptions,
  validatePlainObject,
  invalidArgument,
  parseTimestamp,
} from "./validate.js";
export {
  either,
  isAnything,
  isBoolean,
  isCounter,
  isNumber,
  isString,
  listOf,
  objectOf,
  oneOf,
  optional,
  type Shape,
  tupleOf,
} from "./shape.js";
