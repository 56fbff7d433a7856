export {
  type Claim,
  buildClaimEntry,
  checkClaimable,
  readRunSnapshot,
  buildRunningRecord,
  claimBranch,
  type RunSnapshot,
} from "./claim.js";
export { applyCrashPolicy } from "./crash-policy.js";
export { type TurnInput, readOldestInput, type BranchWork } from "./next-input.js";
export { cancelledRun, finishCancel, type Release, releaseBranch } from "./release.js";
