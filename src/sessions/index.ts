export { type Attachments, attachValue, readAttachments } from "./attachments.js";
export { beginBranch, moveBranch } from "./begin-line.js";
export { type Author, BranchCursor, checkUpdated, type SaveExtension } from "./branch-cursor.js";
export { type BranchInfo, forkAt, forkWithState, moveFrame, rewindBranch, showHead } from "./branches.js";
export { buildCommit, type CommitParts, toCommit } from "./commit.js";
export { branchMoved, isFailedOver, isFenced } from "./conflicts.js";
export { Cursors } from "./cursors.js";
export { clearSession, deleteSession, freeAllRemains, freeRemains } from "./delete.js";
export {
  agentMismatch,
  alreadyRunning,
  branchBegun,
  BranchHeld,
  branchNotFound,
  checkAnswered,
  checkpointNotFound,
  describeBranch,
  describeSession,
  notTheHead,
  sessionDeleted,
  sessionNotFound,
  stateAndResults,
  unknownCheckpoint,
} from "./errors.js";
export { findCheckpoint, type FoundCheckpoint } from "./find-checkpoint.js";
export { findRow, type FoundRow } from "./find-row.js";
export { sessionWithNumber } from "./find-session.js";
export { type HistoryOptions, walkHistory } from "./history.js";
export { findWhole } from "./latest.js";
export { loadShadow } from "./load-state.js";
export {
  type AgentMigrations,
  migrateIfDeclared,
  migrateState,
  type Migration,
  type MigrationPlan,
  Migrations,
  tooOld,
} from "./migrations.js";
export { newRow } from "./new-row.js";
export { attachLabel, attachPin } from "./notes.js";
export { NumberSource } from "./numbers.js";
export type { ForkOptions, LoadOptions, SessionOptions } from "./options.js";
export { type Heads, type Known, type Notes, readHeadNotes, readHeads, SessionReader } from "./reader.js";
export { saveOnHead } from "./save-on-head.js";
export { type TakenOptions, takeOptions } from "./save-options.js";
export { declaredVersion, migrateLoaded, saveMigrated, versionOver, type Versions } from "./versions.js";
