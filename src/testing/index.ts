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
export type * from "../store/index.js";
export { DOCUMENTS_PER_SOURCE } from "../store/index.js";
export type * from "../store/index.js";
