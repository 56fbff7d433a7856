export { decodePolicy, encodePolicy, newStamp, Policies, type StoredPolicy, withoutPolicies } from "./policy-cache.js";
export {
  byBranch,
  deadlineOf,
  type KeepReason,
  keepReasons,
  type Retention,
  type RetentionOptions,
  takeRetention,
} from "./rules.js";
export { type Look, mustLook, SMALL } from "./sweep-schedule.js";
