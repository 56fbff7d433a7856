export { enforceRetention } from "./enforce.js";
export {
  sumPruneResults,
  type KeptCheckpoint,
  prune,
  type PrunedCheckpoint,
  type PruneOptions,
  type PruneProgress,
  type PruneResult,
  pruneSession,
  type PruneTarget,
} from "./prune.js";
export { type CheckpointSet, describeNeed, type NeededBy, removeCheckpoints, stillNeeded } from "./removal.js";
