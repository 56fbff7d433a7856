/** A run that this process holds open: the step of an agent that nobody else calls. */
import { SavepointError } from "../../errors.js";
import type { Usage } from "../../records/index.js";
import type { ToolCall } from "../../messages/index.js";
import { describeBranch } from "../../sessions/index.js";
import {
  type Agent,
  type Completion,
  type EffectContext,
  type EffectOptions,
  type LlmContext,
  type LlmOptions,
  type OpenRun,
  type OpenToolOptions,
  type Reply,
  type AgentSpec,
  parseRetryOptions,
} from "../agent/index.js";
import { toReason } from "../journal/index.js";
import type { RunResult } from "../status/index.js";
import type { StepRun } from "../engine/index.js";

/** What an open run needs of the execution that it is the step of. */
export interface OpenExecution {
  readonly finished: Promise<RunResult>;
  /** Ends it as it stands, for others to go on with. */
  release(): Promise<void>;
}

/** An agent whose step waits outside, and its run as soon as that is called for. */
export class OpenAgent {
  readonly agent: Agent;
  /** The step's run, and how to end it. */
  readonly stepStarted: Promise<{ readonly run: StepRun; readonly end: (completion: Completion<unknown>) => void }>;

  constructor(name: string, initial: () => unknown) {
    let hand: (handed: Awaited<typeof this.stepStarted>) => void = () => {};
    this.stepStarted = new Promise((resolve) => (hand = resolve));
    const definition: AgentSpec = {
      name,
      initial,
      receive: undefined,
      // What a turn has recorded is kept, and read again, whatever it is that has changed: there is one attempt.
      step: (run) => new Promise((end) => hand({ run: run as StepRun, end })),
      strategy: "never",
      limits: {},
      migrations: [],
      retry: parseRetryOptions({ attempts: 1 }),
      createDetector: () => undefined,
      open: true,
    };
    this.agent = Object.freeze({ name, definition });
  }
}

export class LiveOpenRun implements OpenRun {
  readonly finished = undefined;
  readonly #run: StepRun;
  readonly #end: (completion: Completion<unknown>) => void;
  readonly #opened: OpenExecution;
  /** Rejects when the run is over. */
  readonly #over: Promise<never>;

  constructor({ run, end }: Awaited<OpenAgent["stepStarted"]>, opened: OpenExecution) {
    this.#run = run;
    this.#end = end;
    this.#opened = opened;
    this.#over = opened.finished.then((result) => {
      throw endedError(result);
    });
    this.#over.catch(() => {});
  }

  get session(): string {
    return this.#run.session;
  }

  get branch(): string {
    return this.#run.branch;
  }

  get turn(): number {
    return this.#run.turn;
  }

  get state(): unknown {
    return this.#run.state;
  }

  set state(state: unknown) {
    this.#run.state = state;
  }

  get signal(): AbortSignal {
    return this.#run.signal;
  }

  get usage(): Required<Usage> {
    return this.#run.usage;
  }

  llm<Result>(
    call: (context: LlmContext) => Result | Promise<Result>,
    options: LlmOptions<Awaited<Result>> = {},
  ): Promise<Reply<Awaited<Result>>> {
    return this.#unlessOver(() => this.#run.llm(call, { retry: { attempts: 1 }, ...options }));
  }

  tool<Result>(
    call: ToolCall,
    run: (context: EffectContext) => Result | Promise<Result>,
    options: OpenToolOptions<Awaited<Result>> = {},
  ): Promise<Awaited<Result>> {
    return this.#unlessOver(() => this.#run.openTool(call, run, options));
  }

  effect<Result>(
    name: string,
    run: (context: EffectContext) => Result | Promise<Result>,
    options: EffectOptions<Awaited<Result>> = {},
  ): Promise<Awaited<Result>> {
    return this.#unlessOver(() => this.#run.effect(name, run, options));
  }

  remember<Value>(name: string, make: () => Value): Value {
    return this.#run.remember(name, make);
  }

  stepDone(trigger = "step"): Promise<void> {
    return this.#unlessOver(() => this.#run.stepDone(trigger));
  }

  async complete(output?: unknown): Promise<RunResult> {
    return this.#finish(this.#run.complete(output));
  }

  async fail(reason: unknown): Promise<RunResult> {
    return this.#finish(this.#run.fail(toReason(reason ?? "it failed")));
  }

  async release(): Promise<void> {
    await this.#opened.release();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  /** What an effect that began too late waits for never comes; that it is over does. */
  #unlessOver<T>(begin: () => Promise<T>): Promise<T> {
    return Promise.race([this.#over, begin()]);
  }

  async #finish(completion: Completion<unknown>): Promise<RunResult> {
    this.#end(completion);
    const result = await this.#opened.finished;
    if (result.status !== completion.status) throw endedError(result);
    return result;
  }
}

/** Why a loop outside cannot go on. */
export function endedError(result: RunResult): SavepointError {
  const { session, branch, status } = result;
  const where = describeBranch(session, branch);
  const details = { sessionId: session, branch, status };
  if (result.status === "waiting") {
    const { questions } = result;
    const names = questions.map(({ call }) => JSON.stringify(call?.name)).join(", ");
    return new SavepointError(
      "OUTCOME_UNKNOWN",
      `${where} waits for a person: ${names} was interrupted, and nobody knows whether it happened. Tell with sp.answer(session, { happened: true, result }) or { happened: false }, and open the turn again.`,
      { details: { ...details, questions } },
    );
  }
  const why = result.reason === undefined ? "" : `: ${result.reason}`;
  return new SavepointError(
    "RUN_ENDED",
    `${where} is ${status}${why}. Nothing more is done or recorded in this turn.`,
    {
      details: { ...details, reason: result.reason },
    },
  );
}
