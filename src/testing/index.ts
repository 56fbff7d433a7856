export { storeConformance, type ConformanceOptions } from "./conformance.js";
export type {
  CrashHarness,
  Damage,
  DamageTarget,
  OpenForCrash,
  StoreHarness,
  StoreUnderTest,
  TestRunner,
} from "./harness.js";
export type * from "../store/store.js";
export { DOCUMENTS } from "../store/text-index.js";
export type * from "../store/text-index.js";
