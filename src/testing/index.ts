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
export { DOCUMENTS } from "../store/index.js";
export type * from "../store/index.js";
