/**
 * Retention: which checkpoints are kept, why, and the removal of all others, by a call (`prune`) or after saves (the sweep).
 *
 * A head, a pinned checkpoint and one that anything still needs are never removed, and a removal is one commit that fails
 * if any of that changed meanwhile.
 */
export { type CheckpointSet, describeNeed, type NeededBy } from "./checkpoint-set.js";
export {
  type KeptCheckpoint,
  prune,
  type PrunedCheckpoint,
  type PruneOptions,
  type PruneProgress,
  type PruneResult,
  pruneSession,
  type PruneTarget,
  sumPruneResults,
} from "./prune.js";
export { removeCheckpoints, stillNeeded } from "./removal.js";
export { enforceRetention } from "./sweep.js";
