export { readLastShutdown } from "./last-shutdown.js";
export { addLocalOwner, hasEndedHere, type OwnerRuns, removeLocalOwner } from "./local-owners.js";
export { type CompletedRun, type EndedRun, readResult, type RunResult, toResult, type WaitingRun } from "./result.js";
export {
  isAlive,
  readOwner,
  readBranchStatuses,
  decodeRunOfSession,
  type BranchStatus,
  decideWorkStatus,
} from "./status.js";
