export { migrateAgentState } from "./agent-code.js";
export { claimRun, type ClaimOrResult, inputMismatch, type TurnRequirements, encodeInput } from "./claim-run.js";
export { enqueue, type EnqueueOptions } from "./enqueue.js";
export { claimOpenTurn, parseOpenRunOptions } from "./claim-open-turn.js";
export {
  checkAgent,
  recursiveRun,
  sessionToStartNotFound,
  type RecoverOptions,
  type RunOptions,
  parseAgents,
  parseBranchName,
  parseRunOptions,
  type RunRequest,
} from "./options.js";
