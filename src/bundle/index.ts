/**
 * Bundles: portable copies of a store or of a part of it. A backup is a bundle of a whole store. Invariant: a bundle is processed
 * section by section. A section has no effect until its hash, which covers the bundle up to the end of the section, is verified.
 */
export { type NamedBlob, readBlob, renameInLine } from "./blob-names.js";
export {
  AutoBackups,
  backup,
  type BackupInfo,
  type BackupOptions,
  type BackupPolicy,
  type BackupResult,
  listBackupFiles,
} from "./backup.js";
export { type KnownBackup, listKnownBackups, type MeasuredBackup } from "./known-backups.js";
export { Bundle, type BundleHole, type BundleProgress, type BundleSummary, describeHole } from "./bundle.js";
export { exportBundle, type ExportOptions, type ExportTarget } from "./export.js";
export type { BundleKind, BundleLine, ConversationsStart, SessionStart } from "./format.js";
export { importBundle, type ImportOptions, type ImportResult } from "./import.js";
export { moveMessages, toFrame } from "./section.js";
export { type BundleSource, isLockedBundle, openBundle } from "./sections.js";
