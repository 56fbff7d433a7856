/**
 * `savepoint/testing`: the conformance kit for authors of stores. A store that passes it can be used by everything above the
 * store contract. The kit imports only `errors` and `store`.
 */
export { type ConformanceOptions, storeConformance } from "./conformance.js";
export type {
  CrashHarness,
  Damage,
  DamageTarget,
  OpenForCrash,
  StoreHarness,
  StoreUnderTest,
  TestRunner,
} from "./harness.js";
