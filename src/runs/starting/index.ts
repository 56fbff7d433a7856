export { migrateState } from "./agent-code.js";
export { begin, type Begun, inputMismatch, type Request, takeInput } from "./begin.js";
export { enqueue, type EnqueueOptions } from "./enqueue.js";
export { openTurn, takeOpenOptions } from "./open-turn.js";
export {
  checkAgent,
  inItsOwnStep,
  nothingThere,
  type RecoverOptions,
  type RunOptions,
  takeAgents,
  takeBranchName,
  toWanted,
  type Wanted,
} from "./options.js";
