/**
 * The engine: executes the steps of a claimed run, and replays what an earlier attempt has recorded. A result is recorded
 * before its step can depend on it durably, and no effect is started before its intent is durable and the lease is checked.
 */
export { Execution, type ExecutionHost } from "./execution.js";
export type { StepRun } from "./step-run.js";
export { currentScope } from "./step-scope.js";
