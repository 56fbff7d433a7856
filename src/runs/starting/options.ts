/** What callers can say about running a session, and what they are told if it makes no sense. */
import { SavepointError } from "../../errors.js";
import { checkId, MAIN } from "../../records/index.js";
import type { RunEvent } from "../../events/index.js";
import { describeBranch } from "../../sessions/index.js";
import type { Agent, Limits } from "../agent/index.js";

/** How a session is run. */
export interface RunOptions<Input = unknown> {
  readonly session: string;
  /** What to work on. A session that is there can be gone on with without saying it again. */
  readonly input?: Input;
  /** The same input under the same key is taken once, however often it is given. */
  readonly key?: string;
  /** @default "main" */
  readonly branch?: string;
  /**
   * Begin the current step anew, and keep what its tools have answered, by the ids of their calls. For code that no longer
   * does what it did.
   * @default false
   */
  readonly restartStep?: boolean;
  /**
   * Go on with a session that has failed or was halted.
   * @default false
   */
  readonly resume?: boolean;
  /**
   * Do not resolve with `waiting`: stay until it is woken or told what it asked, and go on. The session holds no lease
   * meanwhile.
   * @default false
   */
  readonly wait?: boolean;
  /** What the session may use, instead of what its agent says; while this process runs it. */
  readonly limits?: Limits;
  /** Told what happens in the run, from its beginning. */
  readonly onEvent?: (event: RunEvent) => void;
}

/** How what was interrupted is recovered. */
export type RecoverOptions = Pick<RunOptions, "restartStep" | "wait">;

/** What is wanted of a session: an input to be worked on, or whatever is left to do. */
export type RunRequest = Omit<RunOptions, "input"> & { readonly input: { readonly value: unknown } | undefined };

/** Whether there is an input is for the caller to say: `undefined` is one as well. */
export function parseRunOptions(options: RunOptions): RunRequest {
  const given: unknown = options;
  if (typeof given !== "object" || given === null) {
    throw new SavepointError("INVALID_ARGUMENT", "sp.run() needs options: sp.run(agent, { session, input }).");
  }
  return { ...options, input: "input" in options ? { value: options.input } : undefined };
}

export function checkAgent(agent: Agent): Agent {
  if ((agent as Agent | null | undefined)?.definition) return agent;
  throw new SavepointError("INVALID_ARGUMENT", "That is no agent. Make one with defineAgent({ name, initial, step }).");
}

/** A list of agents, as callers give it. */
export function parseAgents(agents: readonly Agent[], where: string): readonly Agent[] {
  if (!Array.isArray(agents)) {
    throw new SavepointError("INVALID_ARGUMENT", `${where}() needs a list: ${where}([agent]).`);
  }
  return agents.map(checkAgent);
}

/** The branch that is meant. */
export function parseBranchName(branch: string | undefined): string {
  return branch === undefined ? MAIN : checkId(branch, "branch name");
}

export function recursiveRun(session: string, branch: string): SavepointError {
  return new SavepointError(
    "ALREADY_RUNNING",
    `${describeBranch(session, branch)} cannot be run from within its own step: it would wait for itself. Use another session.`,
  );
}

export function sessionToStartNotFound(session: string): SavepointError {
  return new SavepointError(
    "SESSION_NOT_FOUND",
    `Session ${JSON.stringify(session)} does not exist. Give sp.run() an input to begin it with.`,
  );
}
