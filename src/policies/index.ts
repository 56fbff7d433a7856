export {
  decodePolicy,
  encodePolicy,
  newPolicyStamp,
  PolicyCache,
  type StoredPolicy,
  buildPolicyRemoval,
} from "./policy-cache.js";
export {
  groupByBranch,
  effectiveExpiry,
  type KeepReason,
  keepReasons,
  type RetentionRules,
  type RetentionOptions,
  parseRetentionOptions,
} from "./rules.js";
export type { SweepSchedule } from "./sweep-schedule.js";
