export type { RunHandle } from "./handle.js";
export { branchMapKey, Runs } from "./runs.js";
export { type WatchEvent, type WatchOptions, watchSession } from "./watch.js";
