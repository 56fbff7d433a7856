export { obeyLimits } from "./enforce.js";
export {
  addUp,
  type KeptCheckpoint,
  prune,
  type PrunedCheckpoint,
  type PruneOptions,
  type PruneProgress,
  type PruneResult,
  pruneSession,
  type PruneTarget,
} from "./prune.js";
export { describeNeed, type NeededBy, removeCheckpoints, stillNeeded } from "./remove-checkpoints.js";
