/**
 * A run that is held open from outside: for a loop that is not ours to call, such as that of an SDK.
 *
 * Where an agent's step is called by Savepoint, here the loop calls Savepoint. From `sp.openRun()` to `complete()` is one
 * turn, and one step in the sense of a run: its journal is kept whole until then, and a loop that is started again after a
 * crash gets what was recorded, by what it asks for and not by when it does.
 */
import type { Usage } from "../../records/index.js";
import type { ToolCall } from "../../messages/index.js";
import type { RunResult } from "../status/index.js";
import type { EffectContext, EffectOptions, LlmContext, LlmOptions, Reply } from "./run.js";

/** Which turn of which session is opened. */
export interface OpenRunOptions<State = unknown> {
  readonly session: string;
  /**
   * The agent that the session belongs to.
   * @default that of the session, or "agent"
   */
  readonly agent?: string;
  /** @default "main" */
  readonly branch?: string;
  /**
   * Names the turn. One of the same name goes on, or, if it is completed, is given once more from what was recorded. Another
   * one begins a new turn; while one is unfinished, that is `UNFINISHED_TURN`. Without a name an unfinished turn goes on, and
   * if there is none a new one begins.
   */
  readonly turn?: string;
  /**
   * Give up an unfinished turn of another name: the new one begins from the state that it had begun with.
   * @default false
   */
  readonly abandon?: boolean;
  /** The state that a new session begins with. */
  readonly initial: () => State | Promise<State>;
}

/** What is said about a tool that a loop outside runs. */
export interface OpenToolOptions<Result = unknown> extends EffectOptions<Result> {
  /** The loop's own signal: where it has stopped the tool, nobody knows whether it happened, as after a crash. */
  readonly stopped?: AbortSignal | undefined;
}

/**
 * A run that is held open. Where it ends before the loop does, whatever the loop waits for is rejected with why: it waits for
 * a person (`OUTCOME_UNKNOWN`), was stopped (`RUN_ENDED`), or has lost its lease (`LEASE_LOST`).
 */
export interface OpenRun<State = unknown> extends AsyncDisposable {
  readonly session: string;
  readonly branch: string;
  /** The number of the turn, counted from 1. */
  readonly turn: number;
  /** What the turn returned, where it was completed before: everything it asks for is given from what was recorded. */
  readonly finished: RunResult<State> | undefined;
  /** The state. It is saved with each checkpoint; set it before {@link stepDone}, {@link complete} and {@link fail}. */
  state: State;
  /** Aborted when the run is cancelled or has lost its lease. Effects get it too. */
  readonly signal: AbortSignal;
  /** What the session has used so far. */
  readonly usage: Required<Usage>;

  /**
   * Calls a model. The reply is durable before it is given. An error is not recorded: the loop asks again as it likes. What is
   * recorded under this name must have had the same `input`, or it is `NONDETERMINISM`.
   */
  llm<Result>(
    call: (context: LlmContext) => Result | Promise<Result>,
    options?: LlmOptions<Awaited<Result>>,
  ): Promise<Reply<Awaited<Result>>>;

  /** Runs a tool. Its result, or the error it throws, is durable before it is given. */
  tool<Result>(
    call: ToolCall,
    run: (context: EffectContext) => Result | Promise<Result>,
    options?: OpenToolOptions<Awaited<Result>>,
  ): Promise<Awaited<Result>>;

  /** Does anything else that touches the world. The result is durable before it is given; an error is not recorded. */
  effect<Result>(
    name: string,
    run: (context: EffectContext) => Result | Promise<Result>,
    options?: EffectOptions<Awaited<Result>>,
  ): Promise<Awaited<Result>>;

  /** A value that is there at once, and the same when the turn is gone on with. Written with whatever is recorded next. */
  remember<Value>(name: string, make: () => Value): Value;

  /**
   * The loop has done one of its steps: a checkpoint of the state, which stays in the history. Call it also where a turn is
   * gone on with: it counts what is done, and saves what is new.
   *
   * @param trigger what the checkpoint says it was taken for; "step", if it is not said
   */
  stepDone(trigger?: string): Promise<void>;

  /** Ends the turn. Resolves when that is durable, and the branch is free. */
  complete(output?: unknown): Promise<RunResult<State>>;
  /** Ends the turn as failed. What was recorded is kept: opened by the same name it goes on. */
  fail(reason: unknown): Promise<RunResult<State>>;
  /** Lets go of the turn as it stands: it can be opened again, here or elsewhere, and goes on. */
  release(): Promise<void>;
}
