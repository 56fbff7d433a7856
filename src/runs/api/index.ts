/**
 * The interface of runs to the rest of the package: starting, joining, recovering, cancelling and watching them. A branch has
 * at most one run in a process, and at most one process with a valid lease.
 */
export { branchMapKey, isStoreFailure, LiveRuns, type RunObserver } from "./live-runs.js";
export { EXPECTED_ENDS, type RunHandle, Runs } from "./runs.js";
export { type WatchEvent, type WatchOptions, watchSession } from "./watch.js";
