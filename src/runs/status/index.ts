export { readLastShutdown } from "./last-shutdown.js";
export { addLocalOwner, hasEndedHere, type OwnRuns, removeLocalOwner } from "./local-owners.js";
export { type CompletedRun, type EndedRun, readResult, type RunResult, toResult, type WaitingRun } from "./result.js";
export { isAlive, readOwner, readStandings, runOf, type Standing, workOf } from "./status.js";
