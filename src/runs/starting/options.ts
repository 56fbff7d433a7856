/** The options for running a session, and the request that they are parsed into. */
import { invalidArgument } from "../../util/index.js";
import { SavepointError } from "../../errors.js";
import { checkId, MAIN } from "../../records/index.js";
import type { RunEvent } from "../../events/index.js";
import { describeBranch } from "../../sessions/index.js";
import { type ClassRegistry, stringifyValue } from "../../state/index.js";
import type { Agent, Limits, OpenRunOptions } from "../agent/index.js";
import type { TurnRequest } from "../claims/index.js";
import { encodeNamed } from "../journal/index.js";

/** Options of `sp.run()` and `sp.start()`. */
export interface RunOptions<Input = unknown> {
  readonly session: string;
  /** The input of the next turn. Without one, the session is resumed. */
  readonly input?: Input;
  /** Makes the call idempotent: an input with the same key is accepted once, and later calls get the result of its turn. */
  readonly key?: string;
  /** @default "main" */
  readonly branch?: string;
  /**
   * Restart the current step, and keep only the results of its tools, by the ids of their calls. Use it after `NONDETERMINISM`,
   * when the code of the step has changed.
   * @default false
   */
  readonly restartStep?: boolean;
  /**
   * Resume a session that has failed or was halted.
   * @default false
   */
  readonly resume?: boolean;
  /**
   * Do not resolve with `waiting`: wait until the run is answered or its time has come, and resume it. The session holds no
   * lease in the meantime.
   * @default false
   */
  readonly wait?: boolean;
  /** Replaces limits of the agent while this process runs the session. */
  readonly limits?: Limits;
  /** Called with all events of the run, from its start on. */
  readonly onEvent?: (event: RunEvent) => void;
}

/** Options of `sp.recover()`. */
export type RecoverOptions = Pick<RunOptions, "restartStep" | "wait">;

/** A validated request to run a session. It is built once, and passed on as it is. */
export interface RunRequest extends TurnRequest {
  readonly session: string;
  readonly branch: string;
  /** Resume a session that has failed or was halted. */
  readonly resume: boolean;
  /** Wait until a suspended run can be resumed. */
  readonly wait: boolean;
  readonly onEvent: ((event: RunEvent) => void) | undefined;
  /** Whether no caller has asked for this session: a worker or `sp.recover()` has found it. */
  readonly isAutomatic: boolean;
}

/** Parses the options of a run. A property `input` with the value `undefined` is an input. */
export function parseRunOptions(options: RunOptions, registry: ClassRegistry): RunRequest {
  const value: unknown = options;
  if (typeof value !== "object" || value === null) {
    throw invalidArgument("sp.run() needs options with a session id: sp.run(agent, { session, input }).");
  }
  const { session, branch, key, restartStep = false, resume = false, wait = false, onEvent } = options;
  return {
    session: checkId(session, "session id"),
    branch: parseBranchName(branch),
    input: "input" in options ? encodeInput(options.input, registry) : undefined,
    key: key === undefined ? undefined : checkId(key, "key"),
    restartStep,
    resume,
    wait,
    onEvent,
    isAutomatic: false,
  };
}

/** A request to resume the work on a branch. */
export function toResumeRequest(
  session: string,
  branch: string,
  { restartStep = false, wait = false }: RecoverOptions = {},
): RunRequest {
  const fields = { session, branch, restartStep, wait };
  return { ...fields, input: undefined, key: undefined, resume: false, onEvent: undefined, isAutomatic: true };
}

/** A validated request to open a turn for an external loop. */
export interface OpenRequest extends TurnRequest {
  readonly session: string;
  readonly branch: string;
  /** The agent of a new session; `undefined` for the default. */
  readonly agent: string | undefined;
  /** Start a new turn although another one is unfinished. */
  readonly abandon: boolean;
  /** The input of the turn: its name, in its encoded form. */
  readonly input: string;
  readonly initial: () => unknown;
  readonly receive: ((state: unknown) => unknown) | undefined;
}

/** Parses the options of `sp.openRun()`. The name of the turn is its key. */
export function parseOpenRunOptions(options: OpenRunOptions, registry: ClassRegistry): OpenRequest {
  const value: unknown = options;
  if (typeof value !== "object" || value === null) throw invalidOpenRun("needs options: { session, initial }");
  const { agent, branch, turn, abandon = false, initial, receive } = options;
  const session = checkId(options.session, "session id");
  if (typeof abandon !== "boolean") throw invalidOpenRun('needs a boolean as "abandon"');
  if (typeof initial !== "function") throw invalidOpenRun('needs a function "initial" that returns the first state');
  if (receive !== undefined && typeof receive !== "function") throw invalidOpenRun('needs a function as "receive"');
  return {
    session,
    branch: parseBranchName(branch),
    agent: agent === undefined ? undefined : checkId(agent, "agent id"),
    key: turn === undefined ? undefined : checkId(turn, "name of a turn"),
    input: encodeInput(turn ?? null, registry),
    abandon,
    initial,
    receive,
    restartStep: false,
  };
}

function invalidOpenRun(why: string): SavepointError {
  return invalidArgument(`sp.openRun() ${why}.`);
}

/** Encodes an input as it is stored and compared. */
export function encodeInput(input: unknown, registry: ClassRegistry): string {
  return encodeNamed("The input", () => stringifyValue(input, registry));
}

/** Throws `INVALID_ARGUMENT` unless the value is an agent. */
export function checkAgent(agent: Agent): Agent {
  if ((agent as Agent | null | undefined)?.definition) return agent;
  throw invalidArgument("The agent is invalid: expected the result of defineAgent({ name, initial, step }).");
}

/** Validates a list of agents. @param caller the name of the called method, for the error message */
export function parseAgents(agents: readonly Agent[], caller: string): readonly Agent[] {
  if (!Array.isArray(agents)) {
    throw invalidArgument(`${caller}() needs an array of agents: ${caller}([agent]).`);
  }
  return agents.map(checkAgent);
}

/** Validates the name of a branch. @default "main" */
export function parseBranchName(branch: string | undefined): string {
  return branch === undefined ? MAIN : checkId(branch, "branch name");
}

/** The error of a step that runs its own branch. */
export function recursiveRun(session: string, branch: string): SavepointError {
  return new SavepointError(
    "ALREADY_RUNNING",
    `${describeBranch(session, branch)} cannot be run from within its own step: it would wait for itself. Use another session.`,
  );
}

/** The error of a run without an input on a session that does not exist. */
export function sessionToStartNotFound(session: string): SavepointError {
  return new SavepointError(
    "SESSION_NOT_FOUND",
    `Session ${JSON.stringify(session)} does not exist. Pass an input to sp.run() to start it.`,
  );
}
