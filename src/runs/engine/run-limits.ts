/** The limits of a run: the reason to halt a run that has reached one of them, or `undefined`. */
import type { Usage } from "../../records/index.js";
import type { AgentSpec } from "../agent/index.js";

/** @param worked milliseconds of work so far, over all restarts */
export function reachedUsageLimit(
  { tokens, cost, time }: AgentSpec["limits"],
  usage: Required<Usage>,
  worked: number,
): string | undefined {
  if (tokens !== undefined && usage.tokens >= tokens) return `the limit of ${tokens} tokens is reached`;
  if (cost !== undefined && usage.cost >= cost) return `the limit of ${cost} in cost is reached`;
  if (time !== undefined && worked >= time) return `the limit of ${time} ms of work is reached`;
  return undefined;
}

/**
 * @param done the completed steps of the session
 * @param inTurn those of the current turn
 */
export function reachedStepLimit(
  { steps, stepsPerTurn }: AgentSpec["limits"],
  done: number,
  inTurn: number,
): string | undefined {
  if (steps !== undefined && done >= steps) return `the limit of ${steps} steps is reached`;
  if (stepsPerTurn === undefined || inTurn < stepsPerTurn) return undefined;
  const limit = `the limit of ${stepsPerTurn.toLocaleString("en-US")} steps in one turn is reached`;
  return `${limit}. If this is not a loop, raise limits.stepsPerTurn; { resume: true } resumes the run with a new count`;
}
