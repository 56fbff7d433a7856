/** The interface of a step function to its run: the state, and all effects on the outside world. */
import type { Usage } from "../../records/index.js";
import type { ToolCall } from "../../messages/index.js";
import type { LoopVerdict } from "../../events/index.js";
import type { Duration } from "../../util/index.js";
import type { RetryOptions } from "./retry.js";

/** The value that a step returns to end the run. Created by `run.complete()`, `run.fail()` and `run.halt()`. */
export class Completion<out Output> {
  constructor(
    readonly status: "completed" | "failed" | "halted",
    readonly output: Output | undefined,
    readonly reason: string | undefined,
  ) {}
}

/** Decides what happens to an effect that was interrupted, so that its outcome is unknown. */
export type UnknownPolicy =
  /** The run waits until a person answers whether it happened. */
  | "ask"
  /** The effect is executed again, with the same idempotency key. */
  | "retry"
  /** The function `verify` asks the outside world. */
  | "verify"
  /** The effect throws `OUTCOME_UNKNOWN` in the step. */
  | "fail";

/** The result of `verify`: whether an interrupted effect happened. */
export type Verdict<Result = unknown> =
  | { readonly happened: true; readonly result: Result }
  | { readonly happened: false };

/** The argument of the function that executes an effect. */
export interface EffectContext {
  /** Identifies the effect: equal in all its attempts, different for all other effects. Pass it to services that accept one. */
  readonly idempotencyKey: string;
  /** Aborted when the run is cancelled, loses its lease or is closed, and when the timeout of the effect expires. */
  readonly signal: AbortSignal;
  /** The number of this attempt, counted from 1. */
  readonly attempt: number;
}

/** The argument of the function that calls a model. */
export interface LlmContext extends EffectContext {
  /**
   * Emits a part of the reply: as an event `delta`, and for `sp.stream()`, which works in any process until the turn has ended.
   * When the step is replayed, only the complete reply is returned.
   */
  readonly emit: (delta: unknown) => void;
}

/** Options of an effect. */
export interface EffectOptions<Result = unknown> {
  /**
   * What to do if the effect is interrupted.
   * @default "ask" for tools, "retry" for models and other effects
   */
  readonly onUnknown?: UnknownPolicy;
  /** Finds out whether the effect happened. Required for `onUnknown: "verify"`. */
  readonly verify?: (context: EffectContext) => Verdict<Result> | Promise<Verdict<Result>>;
  /**
   * The longest duration of one attempt. When it expires, the signal is aborted and the effect throws `TIMEOUT`.
   * @default no limit
   */
  readonly timeout?: Duration;
  /**
   * How transient errors are retried.
   * @default the defaults of {@link RetryOptions} for models; one attempt for other effects
   */
  readonly retry?: RetryOptions;
}

/** Options of a model call. */
export interface LlmOptions<Result = unknown> extends EffectOptions<Result> {
  /** @default "llm" */
  readonly name?: string;
  /** The input of the model. Its hash is recorded; if a replayed call has another input, the run fails with `NONDETERMINISM`. */
  readonly input?: unknown;
  /**
   * Reads the tokens and the cost of a reply.
   * @default the reply's own `usage` property, as common SDKs name its fields
   */
  readonly usage?: (reply: Result) => Usage | undefined;
}

/** A question to a person. */
export interface AskOptions {
  readonly text: string;
  /** Additional data for the person who answers. */
  readonly data?: unknown;
}

/**
 * A run, as a step function sees it. Everything nondeterministic goes through it, so that a step that is executed again
 * after a crash replays its recorded results and continues from there.
 */
export interface Run<State = unknown> {
  readonly session: string;
  readonly branch: string;
  /** The number of this step, counted from 1. */
  readonly step: number;
  /** The number of this turn: how many inputs the session has received, including the current one. */
  readonly turn: number;
  /** The state. It may be changed in place; the changes are saved when the step ends. */
  state: State;
  /** Aborted when the run is cancelled, loses its lease or is closed. */
  readonly signal: AbortSignal;
  /** The usage of the session so far. */
  readonly usage: Required<Usage>;
  /** Whether the model repeats itself. At `"alternative"` the step should ask it to try something else. */
  readonly loop: LoopVerdict;

  /** Calls `change` with the state. If it returns a value, that replaces the state. */
  update(change: (state: State) => State | void): void;

  /** Calls a model and records its reply. After a crash, the model is called again only if no reply was recorded. */
  llm<Result>(
    call: (context: LlmContext) => Result | Promise<Result>,
    options?: LlmOptions<Awaited<Result>>,
  ): Promise<Reply<Awaited<Result>>>;

  /**
   * Executes a tool. Its start is recorded before it runs and its result after that, so a tool that was interrupted in
   * between is never silently repeated. With `onUnknown: "retry"` no start is recorded, and such a tool is executed again.
   */
  tool<Result>(
    call: ToolCall,
    run: (context: EffectContext) => Result | Promise<Result>,
    options?: EffectOptions<Awaited<Result>>,
  ): Promise<Awaited<Result>>;

  /** Executes any other effect and records its result. It is executed again if it was interrupted. */
  effect<Result>(
    name: string,
    run: (context: EffectContext) => Result | Promise<Result>,
    options?: EffectOptions<Awaited<Result>>,
  ): Promise<Awaited<Result>>;

  /** The current time in milliseconds since 1970. Recorded, so it is the same when the step is replayed. */
  now(): number;
  /** A random number from 0 to 1. Recorded, so it is the same when the step is replayed. */
  random(): number;
  /** A random UUID. Recorded, so it is the same when the step is replayed. */
  uuid(): string;

  /** Waits for a duration (milliseconds, or a string such as `"5m"`) or until a date. No process is needed meanwhile. */
  sleep(time: Duration | Date): Promise<void>;

  /** Asks a person, and resolves with the value that `sp.answer()` records, in this process or, days later, in another. */
  ask<Answer = unknown>(question: string | AskOptions): Promise<Answer>;

  /** Completes the run: `return run.complete(output)`. */
  complete<Output>(output: Output): Completion<Output>;
  complete(): Completion<undefined>;
  /** Ends the run as failed: `return run.fail(reason)`. */
  fail(reason: string): Completion<never>;
  /** Stops the run until a person resumes it: `return run.halt(reason)`. */
  halt(reason: string): Completion<never>;
}

/** The type of a model's reply. A stream resolves to the value that its generator returns, else to its joined parts. */
export type Reply<Result> =
  Result extends AsyncGenerator<infer Part, infer Returned>
    ? undefined extends Returned
      ? Joined<Part>
      : Returned
    : Result extends AsyncIterable<infer Part>
      ? Joined<Part>
      : Result;

type Joined<Part> = Part extends string ? string : Part[];
