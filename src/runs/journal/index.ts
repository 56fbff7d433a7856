export { encodeNamed, hashText, settleValue } from "./encoded-value.js";
export {
  type EffectCall,
  type EffectUsage,
  encodeEntries,
  type Entry,
  type Outcome,
  readEntries,
  type Started,
  type StoredResult,
} from "./entry.js";
export { forkWithResults } from "./fork-with-results.js";
export { Cancelled, Journal, type JournalWrite, leaseLost, type PreparedEntries } from "./journal.js";
export { type Matching, MatchingByIdentity, MatchingByOrder } from "./matching.js";
export { type JournalEntry, readJournal } from "./read-journal.js";
export { Deliveries, describeCall, IMMEDIATE, type RecordedEffect, RecordedEffects } from "./recorded-effects.js";
export { describeThrown, isError, recordError, reviveError, stackOf, toReason } from "./recorded-error.js";
