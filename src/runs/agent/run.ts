/** What a step gets: its state, and everything through which it touches the world. */
import type { Usage } from "../../records/index.js";
import type { ToolCall } from "../../messages/index.js";
import type { LoopVerdict } from "../../events/index.js";
import type { Duration } from "../../util/index.js";
import type { Completion } from "./completion.js";
import type { RetryOptions } from "./retry.js";

/** What to do about something that was interrupted, so that nobody knows whether it happened. */
export type UnknownPolicy =
  /** A person decides; until then the run waits. */
  | "ask"
  /** Do it again, with the same idempotency key. */
  | "retry"
  /** Ask the outside world, with the function `verify`. */
  | "verify"
  /** The step gets the error `OUTCOME_UNKNOWN`. */
  | "fail";

/** What is known about something that was interrupted. */
export type Verdict<Result = unknown> =
  | { readonly happened: true; readonly result: Result }
  | { readonly happened: false };

/** What the function behind an effect gets. */
export interface EffectContext {
  /** The same in every attempt of this very effect, and no other's: the outside world can tell a repetition by it. */
  readonly idempotencyKey: string;
  /** Aborted when the run is cancelled, has lost its lease or is being closed, and when the effect's time is up. */
  readonly signal: AbortSignal;
  /** 1 for the first. */
  readonly attempt: number;
}

/** What the function behind a call of a model gets. */
export interface LlmContext extends EffectContext {
  /** Tells those who listen for `delta` a part of the reply. Nothing of it is recorded; the reply as a whole is. */
  emit(delta: unknown): void;
}

export interface EffectOptions<Result = unknown> {
  /** What to do if it is interrupted. */
  readonly onUnknown?: UnknownPolicy;
  /** Finds out whether it happened; for `onUnknown: "verify"`. */
  readonly verify?: (context: EffectContext) => Verdict<Result> | Promise<Verdict<Result>>;
  /** How long it may take. Then its signal is aborted, and the step gets the error `TIMEOUT`. */
  readonly timeout?: Duration;
  /** Try again for errors that say they will pass. */
  readonly retry?: RetryOptions;
}

export interface LlmOptions<Result = unknown> extends EffectOptions<Result> {
  /** @default "llm" */
  readonly name?: string;
  /** What the model is given; if it is another after a crash, that is `NONDETERMINISM`. */
  readonly input?: unknown;
  /**
   * The tokens and the cost of a reply.
   * @default what its `usage` says
   */
  readonly usage?: (reply: Result) => Usage | undefined;
}

/** A question to a person. */
export interface AskOptions {
  readonly text: string;
  /** Whatever helps to answer it. */
  readonly data?: unknown;
}

export interface Run<State = unknown> {
  readonly session: string;
  readonly branch: string;
  /** The number of this step, counted from 1. */
  readonly step: number;
  /** The inputs the session has been given, this one included. */
  readonly turn: number;
  /** The state. Change it as you like: what has changed is saved when the step ends. */
  state: State;
  /** Aborted when the run is cancelled, has lost its lease or is being closed. */
  readonly signal: AbortSignal;
  /** What the session has used so far. */
  readonly usage: Required<Usage>;
  /** Does the model go round in circles? At `"alternative"` it should be told to try something else. */
  readonly loop: LoopVerdict;

  /** Replaces the state by what `change` makes of it, or lets it change it. */
  update(change: (state: State) => State | void): void;

  /** Calls a model. The reply is recorded; after a crash the model is asked again only if there was none. */
  llm<Result>(
    call: (context: LlmContext) => Result | Promise<Result>,
    options?: LlmOptions<Awaited<Result>>,
  ): Promise<Reply<Awaited<Result>>>;

  /**
   * Runs a tool. That it begins is recorded before it does, what it returns when it is done: a tool that was interrupted
   * in between is never silently repeated, see `onUnknown`.
   */
  tool<Result>(
    call: ToolCall,
    run: (context: EffectContext) => Result | Promise<Result>,
    options?: EffectOptions<Awaited<Result>>,
  ): Promise<Awaited<Result>>;

  /** Does anything else that touches the world, or depends on it. It is done again if it was interrupted. */
  effect<Result>(
    name: string,
    run: (context: EffectContext) => Result | Promise<Result>,
    options?: EffectOptions<Awaited<Result>>,
  ): Promise<Awaited<Result>>;

  /** The time in milliseconds since 1970; the same when the step is run again. */
  now(): number;
  /** A number from 0 to 1; the same when the step is run again. */
  random(): number;
  /** A new UUID; the same when the step is run again. */
  uuid(): string;

  /** Waits for so many milliseconds, a `"5m"`, or until a time. No process is needed meanwhile. */
  sleep(time: Duration | Date): Promise<void>;

  /** Asks a person, and waits for what `sp.answer()` is told, in this process or another one, days later. */
  ask<Answer = unknown>(question: string | AskOptions): Promise<Answer>;

  /** Ends the work: `return run.complete(output)`. */
  complete<Output>(output: Output): Completion<Output>;
  complete(): Completion<undefined>;
  /** Ends the work as failed. */
  fail(reason: string): Completion<never>;
  /** Ends the work for now: somebody has to look at it. */
  halt(reason: string): Completion<never>;
}

/** A reply that came in parts is what they were put together to. */
export type Reply<Result> =
  Result extends AsyncGenerator<infer Part, infer Returned>
    ? undefined extends Returned
      ? Joined<Part>
      : Returned
    : Result extends AsyncIterable<infer Part>
      ? Joined<Part>
      : Result;

type Joined<Part> = Part extends string ? string : Part[];
