/**
 * Claims: acquiring the right to write a branch, and releasing it without a checkpoint. Both raise the epoch of the branch in the
 * commit that changes its owner, so at most one process can write it, and an earlier owner is refused at its next write. (The last
 * checkpoint of a run that ends or waits also releases the branch. It keeps the epoch.)
 */
export {
  type BranchWork,
  buildClaimEntry,
  buildClaimParts,
  buildRunningRecord,
  type Claim,
  claimBranch,
  type ClaimedBranch,
  newRunRecord,
  type TurnRequest,
} from "./claim.js";
export { checkClaimable } from "./claimable.js";
export { applyCrashPolicy } from "./crash-policy.js";
export { cancelledRun, finishCancel, hasPendingCancel, type Release, releaseBranch } from "./release.js";
export { readBoundary } from "./resume-point.js";
export { loadStepStart, type StepStart } from "./step-start.js";
export { readOldestInput, readRunSnapshot, type RunSnapshot, type TurnInput } from "./run-snapshot.js";
