/**
 * Retention policies: the rules that decide which checkpoints are kept, the policies stored for a store, an agent or a session,
 * and when a session is swept. Nothing here removes a checkpoint; the module `retention` does.
 */
export { PolicyCache } from "./policy-cache.js";
export {
  effectiveExpiry,
  groupByBranch,
  type KeepReason,
  keepReasons,
  parseRetentionOptions,
  type RetentionOptions,
  type RetentionRules,
} from "./rules.js";
export { buildPolicyRemoval, decodePolicy, encodePolicy, newPolicyStamp, type StoredPolicy } from "./stored-policy.js";
export { type SweepSchedule, SweepSchedules } from "./sweep-schedule.js";
