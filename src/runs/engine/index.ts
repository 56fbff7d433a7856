export { Execution } from "./execution.js";
export { inside } from "./inside.js";
export { hashOf, StepRun } from "./step-run.js";
