export { FinishedOpenRun } from "./finished-open-run.js";
export { endedError, LiveOpenRun, OpenAgent } from "./live-open-run.js";
