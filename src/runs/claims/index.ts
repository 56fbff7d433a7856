export { type Claim, claimedDue, mayTake, readView, runningRun, takeBranch, type View } from "./claim.js";
export { judge } from "./crash-policy.js";
export { type NextInput, oldestInput, type Work } from "./next-input.js";
export { cancelledRun, finishCancel, type Release, releaseBranch } from "./release.js";
