export { isBackup } from "./backup-name.js";
export {
  AutoBackups,
  backup,
  type BackupInfo,
  type BackupOptions,
  type BackupPolicy,
  type BackupResult,
} from "./backup.js";
export {
  Bundle,
  type BundleHole,
  type BundleProgress,
  type BundleSummary,
  exportBundle,
  type ExportOptions,
  type ExportTarget,
  describeHole,
} from "./export.js";
export { type BundleKind, type BundleLine, type ConversationsStart, readBundle, type SessionStart } from "./format.js";
export { type BundleSource, importBundle, type ImportOptions, type ImportResult, toStream } from "./import.js";
export { toFrame } from "./section.js";
