/** What an agent is: a step over a state. */
import { SavepointError } from "../../errors.js";
import { checkId } from "../../records/index.js";
import { type Duration, toMilliseconds } from "../../util/index.js";
import type { Completion } from "./completion.js";
import { LoopDetector, type LoopOptions } from "./loop-detector.js";
import { type RetryPolicy, type RetryOptions, parseRetryOptions } from "./retry.js";
import type { Run } from "./run.js";
import { checkStrategy, type Strategy } from "./strategy.js";

/** What a session may use, over all its turns and restarts. Reaching one halts it. */
export interface Limits {
  readonly steps?: number;
  readonly tokens?: number;
  readonly cost?: number;
  /** Time spent working; waiting does not count. */
  readonly time?: Duration;
}

export interface AgentDefinition<Input, State, Result> {
  /** Names it in the store: a session belongs to the agent with this name. */
  readonly name: string;
  /** The state to begin with. */
  readonly initial: (input: Input) => State | Promise<State>;
  /**
   * One step: works on `run.state`, calls models and tools through `run`, and returns. It is called again and again until
   * it returns `run.complete()`, `run.fail()` or `run.halt()`. After a crash it is called again from where it began, and
   * what it had recorded is not done again.
   */
  readonly step: (run: Run<State>) => Promise<Result> | Result;
  /** Takes a further input into the state of a completed session. Changes it, or returns another one. */
  readonly receive?: (state: State, input: Input) => State | void | Promise<State | void>;
  /**
   * Which checkpoints stay in the history.
   * @default "afterToolCall"
   */
  readonly strategy?: Strategy;
  readonly limits?: Limits;
  /**
   * Brings states of earlier versions up to date, one version each: the first one those that were saved before there
   * were any migrations.
   */
  readonly migrations?: readonly ((state: never) => unknown)[];
  /** How steps that throw are tried again; after the last attempt the session is halted. */
  readonly retry?: RetryOptions;
  /**
   * Notices a model that goes round in circles, and halts it in the end.
   * @default on
   */
  readonly loop?: LoopOptions | false;
}

/** An agent that can be run. Made by {@link defineAgent}. */
export interface Agent<Input = never, State = unknown, Output = unknown> {
  readonly name: string;
  /** @internal */
  readonly definition: AgentSpec;
  /** For types only; never set. */
  readonly types?: { readonly input: (input: Input) => void; readonly state: State; readonly output: Output };
}

/** A definition with everything filled in, of whatever types. */
export interface AgentSpec {
  readonly name: string;
  readonly initial: (input: unknown) => unknown;
  readonly step: (run: Run<unknown>) => unknown;
  readonly receive: ((state: unknown, input: unknown) => unknown) | undefined;
  readonly strategy: Strategy;
  readonly limits: { steps?: number; tokens?: number; cost?: number; time?: number };
  readonly migrations: readonly ((state: unknown) => unknown)[];
  readonly retry: RetryPolicy;
  readonly createDetector: () => LoopDetector | undefined;
  /** Is its step a loop outside, held open by whoever opened the run? */
  readonly open: boolean;
}

/** What a step that returns `Result` completes with. */
export type OutputOf<Result> = Result extends Completion<infer Output> ? Output : never;

/**
 * Defines an agent. Its input, its state and its output are known to TypeScript from what is written here.
 *
 * @example
 * const shop = defineAgent({
 *   name: "shop",
 *   initial: (input: { order: string }) => ({ order: input.order, messages: [message.user(`refund ${input.order}`)] }),
 *   async step(run) {
 *     const reply = await run.llm(() => model(run.state.messages));
 *     run.state.messages.push(reply);
 *     if (!reply.toolCalls?.length) return run.complete(reply.content);
 *   },
 * });
 */
export function defineAgent<Input, State, Result>(
  definition: AgentDefinition<Input, State, Result>,
): Agent<Input, State, OutputOf<Awaited<Result>>> {
  const { name, initial, step, receive, strategy = "afterToolCall", migrations = [], loop } = definition;
  checkId(name, "name of an agent");
  for (const [key, value] of Object.entries({ initial, step })) {
    if (typeof value !== "function") throw invalidAgent(name, `"${key}" is not a function`);
  }
  if (receive !== undefined && typeof receive !== "function") throw invalidAgent(name, `"receive" is not a function`);
  const options = loop === false ? undefined : (loop ?? {});
  // Wrong options are told now, not in the middle of a run.
  if (options) new LoopDetector(options);
  const taken = {
    name,
    initial,
    step,
    receive,
    strategy: checkStrategy(strategy),
    limits: takeLimits(name, definition.limits ?? {}),
    migrations,
    retry: parseRetryOptions(definition.retry),
    createDetector: () => options && new LoopDetector(options),
    open: false,
  };
  return Object.freeze({ name, definition: taken as unknown as AgentSpec });
}

/** The same agent with other limits; those that are not named stay. */
export function withLimits(agent: Agent, limits: Limits | undefined): Agent {
  if (!limits) return agent;
  const { name, definition } = agent;
  const taken = { ...definition.limits, ...takeLimits(name, limits) };
  return { ...agent, definition: { ...definition, limits: taken } };
}

function takeLimits(name: string, limits: Limits): AgentSpec["limits"] {
  const { time, ...counts } = limits;
  for (const [key, value] of Object.entries(counts)) {
    if (!["steps", "tokens", "cost"].includes(key)) throw invalidAgent(name, `there is no limit "${key}"`);
    if (value !== undefined && !(typeof value === "number" && value > 0)) {
      throw invalidAgent(name, `its limit "${key}" is ${String(value)}, not a number above 0`);
    }
  }
  return { ...counts, ...(time !== undefined && { time: toMilliseconds(time, "limits.time") }) };
}

function invalidAgent(name: string, why: string): SavepointError {
  return new SavepointError("INVALID_ARGUMENT", `Agent ${JSON.stringify(name)} cannot be defined: ${why}.`);
}
