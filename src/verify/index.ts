/**
 * Verification and repair of a store. Invariants: a verification changes nothing, and reports only damage that it sees twice,
 * because the store may be written meanwhile. A repair never changes data that can be read.
 */
export type { VerifyProblem } from "./findings.js";
export { repair, type RepairOptions, type RepairReport } from "./repair.js";
export { verify, type VerifyCounts, type VerifyOptions, type VerifyReport } from "./verify.js";
