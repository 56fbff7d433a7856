/**
 * The status of branches and the results of runs, as they are stored. Reading them never changes a run. Whether an owner is
 * alive is decided by the store's clock, or by the pid of its process on this host.
 */
export { readLastShutdown } from "./last-shutdown.js";
export { addLocalOwner, hasEndedHere, type OwnerRuns, removeLocalOwner } from "./local-owners.js";
export {
  type CompletedRun,
  type EndedRun,
  readResult,
  type ResultFields,
  type RunResult,
  toResult,
  type WaitingRun,
} from "./result.js";
export {
  type BranchStatus,
  decideWorkStatus,
  decodeRunOfSession,
  isAlive,
  noteDeadOwner,
  readBranchStatuses,
  readOwner,
  STEP_ERROR,
} from "./status.js";
