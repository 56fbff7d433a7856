/**
 * The journal of a run: the durable record of the effects of its current step. Every write checks and replaces the journal's
 * record, so a process that has lost the branch is refused at its first write.
 */
export { encodeNamed, hashText, hashValue, settleValue } from "./encoded-value.js";
export {
  type EffectCall,
  type EffectOutcome,
  type EffectStart,
  type EffectUsage,
  encodeEntries,
  type JournalOperation,
  readEntries,
  type Settler,
  type StoredResult,
} from "./entry.js";
export { JointReader } from "./known-items.js";
export { type EffectMatcher, IdentityMatcher, OrderMatcher } from "./effect-matcher.js";
export { forkWithResults } from "./fork-with-results.js";
export { idempotencyKey, type KeySeed } from "./idempotency-key.js";
export { CancelledError, Journal, leaseLost } from "./journal.js";
export type { JournalBatch, JournalWrite } from "./journal-write.js";
export { type CheckpointActivity, readActivities } from "./activity.js";
export { readEffectsAfter } from "./effects-after.js";
export type { EffectClaim } from "./effect-record.js";
export type { EffectSummary, JournalEntry, JournalHole, JournalOptions } from "./journal-entry.js";
export { readJournal } from "./read-journal.js";
export { describeCall, IMMEDIATE_KINDS, type RecordedEffect, RecordedEffects } from "./recorded-effects.js";
export { describeThrown, isError, recordError, reviveError, toReason } from "./recorded-error.js";
