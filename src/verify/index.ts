export type { VerifyProblem } from "./findings.js";
export { repair, type RepairOptions, type RepairReport } from "./repair.js";
export { verify, type VerifyCounts, type VerifyOptions, type VerifyReport } from "./verify.js";
