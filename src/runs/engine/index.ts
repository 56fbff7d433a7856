export { Execution } from "./execution.js";
export { currentScope } from "./step-scope.js";
export { hashOf, StepRun } from "./step-run.js";
