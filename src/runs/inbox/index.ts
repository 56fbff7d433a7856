/**
 * Messages to a run from other processes: answers, further inputs, cancels and requests to resume it. Each is one commit that checks the records it
 * is based on, so it is applied exactly once or fails; none of them needs a lease.
 */
export { recordAnswer } from "./answer.js";
export { requestCancel } from "./cancel.js";
export { sendInput } from "./input.js";
export { requeueRun } from "./requeue.js";
