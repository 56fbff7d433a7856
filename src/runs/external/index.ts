/**
 * Open runs: the implementation of `sp.openRun()`. A live one is the step of an execution, a finished one replays its journal.
 * Results are durable before an external loop gets them, because what it does with them cannot be replayed.
 */
export { FinishedOpenRun } from "./finished-open-run.js";
export { LiveOpenRun, OpenAgent } from "./live-open-run.js";
