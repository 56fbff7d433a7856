export { encodeNamed, hashText, settleValue } from "./encoded-value.js";
export {
  type EffectCall,
  type EffectUsage,
  encodeEntries,
  type JournalOperation,
  type EffectOutcome,
  readEntries,
  type EffectStart,
  type StoredResult,
} from "./entry.js";
export { forkWithResults } from "./fork-with-results.js";
export { CancelledError, Journal, type JournalWrite, leaseLost, type JournalBatch } from "./journal.js";
export { type EffectMatcher, IdentityMatcher, OrderMatcher } from "./effect-matcher.js";
export { type JournalEntry, readJournal } from "./read-journal.js";
export { Deliveries, describeCall, IMMEDIATE_KINDS, type RecordedEffect, RecordedEffects } from "./recorded-effects.js";
export { describeThrown, isError, recordError, reviveError, stackOf, toReason } from "./recorded-error.js";
