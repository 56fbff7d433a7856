/**
 * Starting runs: options are parsed into one request, a pure function decides what the branch needs, and one commit claims it.
 * A request either gets a claim, which exactly one process holds, or the stored result of the run.
 */
export { migrateAgentState } from "./agent-code.js";
export { claimOpenTurn } from "./claim-open-turn.js";
export { type ClaimOrResult, claimRun, inputMismatch } from "./claim-run.js";
export { enqueue, type EnqueueOptions } from "./enqueue.js";
export {
  checkAgent,
  encodeInput,
  parseAgents,
  parseBranchName,
  parseOpenRunOptions,
  parseRunOptions,
  type RecoverOptions,
  recursiveRun,
  type RunOptions,
  type RunRequest,
  sessionToStartNotFound,
  toResumeRequest,
} from "./options.js";
