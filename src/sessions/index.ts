/**
 * Sessions: reading, saving, forking, rewinding, annotating and deleting their checkpoints. Every change of a branch is one
 * commit that checks the records of the session and the branch, so of two writers on the same head one gets `CONFLICT`.
 * Within a process, all saves of a branch go through its `BranchCursor`.
 */
export { type Annotations, annotateCheckpoint, readAnnotations } from "./annotations.js";
export { saveAsRoot, saveOnHead, type SaveRequest, saveWithReset } from "./save-with-parent.js";
export { type Author, BranchCursor } from "./branch-cursor.js";
export { validateUpdateResult } from "./save-change.js";
export type { SaveExtension } from "./plan-save.js";
export { type BranchInfo, forkAt, forkWithState, rewindBranch, materializeHead } from "./branches.js";
export { buildCommit, type CommitParts, toCommit } from "./commit.js";
export { branchMoved, checkRowExists, checkRunRecord, isConflictOn, isFenced } from "./conflicts.js";
export { Cursors } from "./cursors.js";
export { clearSession, deleteSession, freeAllGarbage, freeGarbage } from "./delete.js";
export {
  agentMismatch,
  alreadyRunning,
  branchNotEmpty,
  BranchHeldError,
  branchNotFound,
  requireAnsweredToolCalls,
  checkpointNotFound,
  describeBranch,
  describeSession,
  nothingToComplete,
  isGraphThread,
  parentNotHead,
  rejectUnknownCalls,
  sessionDeleted,
  sessionNotFound,
  stateWithResults,
  checkpointNotInStore,
} from "./errors.js";
export { type CheckpointMatch, findCheckpoint, findRow, findSessionByNumber, type RowMatch } from "./find.js";
export { type HistoryOptions, walkHistory } from "./history.js";
export { loadLatestIntact } from "./latest.js";
export { loadShadow, sharingReader } from "./load-state.js";
export {
  type AgentMigrations,
  migrateIfDeclared,
  migrateState,
  type Migration,
  type MigrationPlan,
  Migrations,
  agentTooOld,
} from "./migrations.js";
export { buildRow, copyRow, rebaseFrame } from "./new-row.js";
export { setLabel, setPin } from "./notes.js";
export { firstUnusedNumber, NUMBER_BLOCK, NumberSource } from "./numbers.js";
export type { ForkOptions, LoadOptions, SessionOptions } from "./options.js";
export { isIntact, readHeadNotes, readMainHeads, SessionReader } from "./reader.js";
export type { Heads, LoadedRecord, Notes, RowResult } from "./reader.js";
export { integrationOptions, isFromIntegration } from "./reserved.js";
export { type SaveFields, parseSaveOptions, parseStatusNote } from "./save-options.js";
export { declaredVersion, migrateLoadedState, saveMigrated, versionForSave, type VersionScope } from "./versions.js";
