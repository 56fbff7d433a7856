/**
 * Bundles: portable copies of a part of a store, or of all of it, and backups made of them. Invariant: a bundle is used section by
 * section, and no section has any effect before its hash proves that nothing up to its end was changed.
 */
export {
  AutoBackups,
  backup,
  type BackupInfo,
  type BackupOptions,
  type BackupPolicy,
  type BackupResult,
  listBackupFiles,
} from "./backup.js";
export { Bundle, type BundleHole, type BundleProgress, type BundleSummary, describeHole } from "./bundle.js";
export { exportBundle, type ExportOptions, type ExportTarget } from "./export.js";
export type { BundleKind, BundleLine, ConversationsStart, SessionStart } from "./format.js";
export { type BundleSource, importBundle, type ImportOptions, type ImportResult, toStream } from "./import.js";
export { moveMessages, toFrame } from "./section.js";
export { openBundle } from "./sections.js";
