/** Prints events that have no listener, so that no failure is silent. */
import { hideOwnFrames } from "../util/index.js";
import type { RunErrorEvent, RunEvent } from "./run-events.js";

const MAX_REASON = 300;

/** Prints an event that nothing listens to, if it reports a failure. @param name of one of the events of a Savepoint */
export function printUnheard(name: string, event: unknown): void {
  if (name === "damage" || name === "backgroundFailure") console.warn(`savepoint: ${name}:`, event);
  else if (name === "runError") printRunError(event as RunErrorEvent);
  else if (name === "run") printRetry(event as RunEvent);
}

function printRunError({ sessionId, branch, step, status, reason, error }: RunErrorEvent): void {
  const advice =
    status === "failed"
      ? "Fix the code and run the session again: it resumes, and recorded effects are not repeated."
      : `${capitalize(toLine(reason))}.${reason.includes("{ resume: true }") ? "" : " Run the session with { resume: true } to try again."}`;
  console.error(`savepoint: ${describe(sessionId, branch)}: step ${step} failed. ${advice}`);
  console.error(hideOwnFrames(error));
}

/** A retry waits. Other events of runs report progress, and are not printed. */
function printRetry(event: RunEvent): void {
  if (event.type !== "retry") return;
  const { sessionId, branch, kind, name, reason, attempt, attempts, delay } = event;
  const what = kind === "step" ? name : `${kind} ${JSON.stringify(name)}`;
  const when = `attempt ${attempt + 1} of ${attempts} in ${(delay / 1000).toFixed(1)} s`;
  console.error(`savepoint: ${describe(sessionId, branch)}: ${what} failed (${toLine(reason)}); ${when}`);
}

function describe(sessionId: string, branch: string): string {
  return `session ${JSON.stringify(sessionId)}${branch === "main" ? "" : `, branch ${JSON.stringify(branch)}`}`;
}

/** The text in one line of limited length, without control characters. */
function toLine(text: string): string {
  return text
    .replace(/[\p{Cc}\s]+/gu, " ")
    .trim()
    .slice(0, MAX_REASON);
}

function capitalize(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
