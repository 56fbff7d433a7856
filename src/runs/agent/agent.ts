/** Agent definitions: a step function over a state, with its options. */
import type { SavepointError } from "../../errors.js";
import { checkId } from "../../records/index.js";
import { type Duration, toMilliseconds, invalidArgument } from "../../util/index.js";
import { LoopDetector, type LoopOptions } from "./loop-detector.js";
import { type RetryPolicy, type RetryOptions, parseRetryOptions } from "./retry.js";
import type { Completion, Run } from "./run.js";
import { checkStrategy, type Strategy } from "./strategy.js";

/**
 * Upper bounds on the usage of a session, over all its turns and restarts, except for `stepsPerTurn`. A session that reaches one is
 * halted.
 */
export interface Limits {
  readonly steps?: number;
  /**
   * The number of steps in one turn. It stops an agent that never completes. A session that is resumed with `{ resume: true }`
   * starts a new count. `Infinity` turns it off. It does not apply to `sp.openRun()`.
   * @default 1000
   */
  readonly stepsPerTurn?: number;
  readonly tokens?: number;
  readonly cost?: number;
  /** Time spent executing steps. Time spent in `run.sleep()` and `run.ask()` does not count. */
  readonly time?: Duration;
}

/** The argument of {@link defineAgent}. */
export interface AgentDefinition<Input, State, Result> {
  /** The name of the agent in the store. Each session belongs to one agent, by this name. */
  readonly name: string;
  /** Returns the first state of a session. */
  readonly initial: (input: Input) => State | Promise<State>;
  /**
   * Executes one step: changes `run.state`, and calls models and tools through `run`. It is called repeatedly until it returns
   * `run.complete()`, `run.fail()` or `run.halt()`. After a crash the interrupted step is called again with the state that it
   * started with, and its recorded effects are replayed instead of executed.
   */
  readonly step: (run: Run<State>) => Promise<Result> | Result;
  /**
   * Adds a further input to the state of a completed session. It changes the state in place or returns a new one. Without
   * this function, a session accepts one input.
   */
  readonly receive?: (state: State, input: Input) => State | void | Promise<State | void>;
  /**
   * Selects the checkpoints that stay in the history.
   * @default "afterToolCall"
   */
  readonly strategy?: Strategy;
  readonly limits?: Limits;
  /**
   * Functions that upgrade states of earlier versions, one version each. The first one upgrades states that were saved
   * before the agent had migrations.
   */
  readonly migrations?: readonly ((state: never) => unknown)[];
  /**
   * How often and when a step is retried that an effect, or a transient error, has ended. After the last attempt the session is
   * halted. An error of the step's own code is not retried: the session fails at once, and resumes when it is run again.
   */
  readonly retry?: RetryOptions;
  /**
   * Detects a model that repeats itself, and eventually halts the session. `false` disables it.
   * @default {} (enabled, with the defaults of {@link LoopOptions})
   */
  readonly loop?: LoopOptions | false;
}

/** An agent that can be run. Created by {@link defineAgent}. */
export interface Agent<Input = never, State = unknown, Output = unknown> {
  readonly name: string;
  /** @internal */
  readonly definition: AgentSpec;
  /** Carries the type parameters. Never set. */
  readonly types?: { readonly input: (input: Input) => void; readonly state: State; readonly output: Output };
}

/** A validated definition with all defaults filled in and its types erased. */
export interface AgentSpec {
  readonly name: string;
  readonly initial: (input: unknown) => unknown;
  readonly step: (run: Run<unknown>) => unknown;
  readonly receive: ((state: unknown, input: unknown) => unknown) | undefined;
  readonly strategy: Strategy;
  readonly limits: { steps?: number; stepsPerTurn?: number; tokens?: number; cost?: number; time?: number };
  readonly migrations: readonly ((state: unknown) => unknown)[];
  readonly retry: RetryPolicy;
  readonly createDetector: () => LoopDetector | undefined;
  /** Whether an external loop executes the step, through `sp.openRun()`. */
  readonly open: boolean;
}

/** The output type of an agent whose step returns `Result`. */
export type OutputOf<Result> = Result extends Completion<infer Output> ? Output : never;

/**
 * Defines an agent. TypeScript infers its input, state and output types from the definition.
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
  // Invalid options throw here rather than in the middle of a run.
  if (options) new LoopDetector(options);
  const spec = {
    name,
    initial,
    step,
    receive,
    strategy: checkStrategy(strategy),
    limits: { stepsPerTurn: DEFAULT_STEPS_PER_TURN, ...parseLimits(name, definition.limits ?? {}) },
    migrations,
    retry: parseRetryOptions(definition.retry),
    createDetector: () => options && new LoopDetector(options),
    open: false,
  };
  return Object.freeze({ name, definition: spec as unknown as AgentSpec });
}

/** Returns the agent with some of its limits replaced. */
export function withLimits(agent: Agent, limits: Limits | undefined): Agent {
  if (!limits) return agent;
  const { name, definition } = agent;
  return { ...agent, definition: { ...definition, limits: { ...definition.limits, ...parseLimits(name, limits) } } };
}

/** More steps than a turn usually has, and few enough that a loop without end does not cost much. */
const DEFAULT_STEPS_PER_TURN = 1000;

function parseLimits(name: string, limits: Limits): AgentSpec["limits"] {
  const { time, ...counts } = limits;
  for (const [key, value] of Object.entries(counts)) {
    if (!["steps", "stepsPerTurn", "tokens", "cost"].includes(key)) throw invalidAgent(name, `unknown limit "${key}"`);
    if (value !== undefined && !(typeof value === "number" && value > 0)) {
      throw invalidAgent(name, `the limit "${key}" must be a number above 0, got ${String(value)}`);
    }
  }
  const defined = Object.fromEntries(Object.entries(counts).filter(([, value]) => value !== undefined));
  return { ...defined, ...(time !== undefined && { time: toMilliseconds(time, "limits.time") }) };
}

function invalidAgent(name: string, why: string): SavepointError {
  return invalidArgument(`Agent ${JSON.stringify(name)} is invalid: ${why}.`);
}
