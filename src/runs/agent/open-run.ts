/**
 * Open runs: durable effects for a loop that Savepoint does not call, such as the agent loop of an SDK.
 *
 * For an agent, Savepoint calls the step function. Here the external loop calls Savepoint. From `sp.openRun()` to `complete()`
 * is one turn, which is one step of a run: its journal is kept until then. A loop that is started again after a crash gets
 * the recorded results by the identity of its calls, not by their order.
 */
import type { Usage } from "../../records/index.js";
import type { ToolCall } from "../../messages/index.js";
import type { RunResult } from "../status/index.js";
import type { AskOptions, EffectContext, EffectOptions, LlmContext, LlmOptions, Reply } from "./run.js";

/** The turn to open with `sp.openRun()`. */
export interface OpenRunOptions<State = unknown> {
  readonly session: string;
  /**
   * The agent that the session belongs to.
   * @default the agent of the session; "agent" for a new session
   */
  readonly agent?: string;
  /** @default "main" */
  readonly branch?: string;
  /**
   * The name of the turn. An unfinished turn of the same name is resumed; a completed one is replayed. Another name starts a
   * new turn, and throws `UNFINISHED_TURN` while a turn is unfinished. Without a name, an unfinished turn is resumed and
   * otherwise a new one starts.
   */
  readonly turn?: string;
  /**
   * Abandon an unfinished turn of another name: the new turn starts with the state that the unfinished one had started with.
   * @default false
   */
  readonly abandon?: boolean;
  /** Returns the first state of a new session. */
  readonly initial: () => State | Promise<State>;
  /**
   * Adds the input of the turn to the state when the turn starts: in the commit that claims it, so that a turn that was started
   * never lacks its input. Not called for a turn that is resumed, nor for the first turn of a session.
   *
   * @returns the state, if it is another object
   */
  readonly receive?: (state: State) => State | void | Promise<State | void>;
}

/** Options of a model that an external loop calls. */
export interface OpenLlmOptions<Result = unknown> extends LlmOptions<Result> {
  /**
   * Return the reply before it is durable. Effects that are started after it wait for it; {@link OpenRun.flush} waits for it too.
   * Until then, nothing that depends on the reply may leave the process: after a crash the model is called again.
   * @default false
   */
  readonly early?: boolean;
}

/** Options of a delta that is recorded outside of effects. */
export interface EmitOptions {
  /**
   * The property of the delta whose strings add up, so that consecutive deltas can be stored as one. Deltas that are strings are
   * always joined.
   */
  readonly append?: string;
  /**
   * Record it in the commit that ends the turn, behind all others: no reader gets it before the turn has ended.
   * @default false
   */
  readonly atEnd?: boolean;
}

/** Options of a tool that an external loop executes. */
export interface OpenToolOptions<Result = unknown> extends EffectOptions<Result> {
  /** The loop's own signal for the tool. If it is aborted, the outcome of the tool is unknown, as after a crash. */
  readonly stopped?: AbortSignal | undefined;
}

/**
 * An open run. If it ends before the loop does, all pending calls reject: with `OUTCOME_UNKNOWN` if it waits for a person,
 * with `RUN_ENDED` if it was stopped, with `LEASE_LOST` if it has lost its branch to another writer.
 */
export interface OpenRun<State = unknown> extends AsyncDisposable {
  readonly session: string;
  readonly branch: string;
  /** The number of the turn, counted from 1. */
  readonly turn: number;
  /** The result of the turn if it was completed before. All calls are then replayed, and nothing is executed. */
  readonly finished: RunResult<State> | undefined;
  /** The state. Each checkpoint saves it, so set it before {@link stepDone}, {@link complete} and {@link fail}. */
  state: State;
  /** Aborted when the run is cancelled or loses its lease. Effects also receive it. */
  readonly signal: AbortSignal;
  /** The usage of the session so far. */
  readonly usage: Required<Usage>;

  /**
   * Calls a model. The reply is durable before the promise resolves, unless `early` is set. Errors are not recorded, because the
   * loop decides whether to retry. Throws `NONDETERMINISM` if the recorded call with the same name had another `input`.
   */
  llm<Result>(
    call: (context: LlmContext) => Result | Promise<Result>,
    options?: OpenLlmOptions<Awaited<Result>>,
  ): Promise<Reply<Awaited<Result>>>;

  /** Executes a tool. Its result, or the error that it throws, is durable before the promise settles. */
  tool<Result>(
    call: ToolCall,
    run: (context: EffectContext) => Result | Promise<Result>,
    options?: OpenToolOptions<Awaited<Result>>,
  ): Promise<Awaited<Result>>;

  /** Executes any other effect. The result is durable before the promise resolves; errors are not recorded. */
  effect<Result>(
    name: string,
    run: (context: EffectContext) => Result | Promise<Result>,
    options?: EffectOptions<Awaited<Result>>,
  ): Promise<Awaited<Result>>;

  /**
   * Asks a person, and returns the answer once it is recorded. Until then, this ends the run as soon as no effect is in flight: the run
   * saves its state and waits, and all pending calls reject with `OUTCOME_UNKNOWN`. Answer with `sp.answer()`, and open the turn again:
   * the loop repeats the question and gets the answer. Questions with the same text are answered in the order in which they were asked.
   */
  ask<Answer = unknown>(question: string | AskOptions): Promise<Answer>;

  /** Returns a value synchronously: the recorded one when the turn is resumed. It is written with the next entry. */
  remember<Value>(name: string, make: () => Value): Value;

  /**
   * Reports that the loop has done one of its steps, and saves a checkpoint of the state that stays in the history. Call it in
   * a resumed turn too: replayed steps are counted, and new ones saved.
   *
   * The checkpoint is saved with the next recorded result, at the latest after two turns of the event loop. A loop need not wait
   * for it, because a resumed turn replays what it contains; but it must not modify the state until the promise resolves.
   *
   * @param trigger the trigger of the checkpoint; @default "step"
   */
  stepDone(trigger?: string): Promise<void>;

  /**
   * Records a delta for `sp.stream()`: a part of what the loop shows while it works. A resumed turn starts without the deltas that
   * were recorded this way, because the loop emits them again. Does nothing in a turn that was completed before.
   *
   * @returns resolves when more can be recorded; a loop that waits for it needs a bounded amount of memory
   */
  emit(name: string, delta: unknown, options?: EmitOptions): Promise<void>;

  /** Resolves when all results so far are durable. Needed only after a reply that was returned `early`. */
  flush(): Promise<void>;

  /** Completes the turn. Resolves when that is durable and the branch is released. */
  complete(output?: unknown): Promise<RunResult<State>>;
  /**
   * Ends the turn as failed. Its journal is kept: a turn opened with the same name resumes it. If the run has ended before, for example
   * because it waits for a person, this rejects as all calls do. If `reason` is the error that reported this end, it resolves with that end instead.
   */
  fail(reason: unknown): Promise<RunResult<State>>;
  /** Releases the unfinished turn. It can be opened again, in this process or another, and resumes. */
  release(): Promise<void>;
}
