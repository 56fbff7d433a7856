/** An open run of this process: the step of an internal agent, which an external loop executes. */
import { SavepointError } from "../../errors.js";
import type { Usage } from "../../records/index.js";
import { describeBranch } from "../../sessions/index.js";
import {
  type Agent,
  type AskOptions,
  type Completion,
  type EmitOptions,
  type OpenRun,
  type AgentSpec,
  parseRetryOptions,
} from "../agent/index.js";
import { isError, toReason } from "../journal/index.js";
import type { RunResult } from "../status/index.js";
import type { Execution, StepRun } from "../engine/index.js";

/** An agent whose only step does not return until the external loop ends it. */
export class OpenAgent {
  readonly agent: Agent;
  /** Resolves when the step is called, with its run and the function that ends it. */
  readonly stepStarted: Promise<{ readonly run: StepRun; readonly end: (completion: Completion<unknown>) => void }>;

  constructor(name: string, initial: () => unknown, receive: ((state: unknown) => unknown) | undefined) {
    let onStep: (step: Awaited<typeof this.stepStarted>) => void = () => {};
    this.stepStarted = new Promise((resolve) => (onStep = resolve));
    const definition: AgentSpec = {
      name,
      initial,
      receive,
      step: (run) => new Promise((end) => onStep({ run: run as StepRun, end })),
      strategy: "never",
      limits: {},
      migrations: [],
      // The external loop decides about retries.
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
  readonly #execution: Execution;
  /** Reject the calls in progress. A single promise that all calls race with would retain their results until the run ends. */
  readonly #rejects = new Set<(error: Error) => void>();
  /** The error of all calls after the run has ended. */
  #ended: Error | undefined;

  /** Resolves when the step of the execution is called. Rejects if the run ends before that. */
  static async create(agent: OpenAgent, execution: Execution): Promise<LiveOpenRun> {
    const ended = execution.finished.then((result) => {
      throw endedError(result);
    });
    ended.catch(() => {});
    return new LiveOpenRun(await Promise.race([agent.stepStarted, ended]), execution, ended);
  }

  private constructor({ run, end }: Awaited<OpenAgent["stepStarted"]>, execution: Execution, ended: Promise<never>) {
    this.#run = run;
    this.#end = end;
    this.#execution = execution;
    ended.catch((error: Error) => {
      this.#ended = error;
      for (const reject of this.#rejects) reject(error);
      this.#rejects.clear();
    });
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

  readonly llm: OpenRun["llm"] = (call, options) =>
    this.#unlessEnded(() => this.#run.llm(call, { retry: { attempts: 1 }, ...options }));

  emit(name: string, delta: unknown, options: EmitOptions = {}): Promise<void> {
    return this.#unlessEnded(() => this.#run.emit(name, delta, options));
  }

  flush(): Promise<void> {
    return this.#unlessEnded(() => this.#run.flush());
  }

  readonly tool: OpenRun["tool"] = (call, run, options) => this.#unlessEnded(() => this.#run.tool(call, run, options));

  readonly effect: OpenRun["effect"] = (name, run, options) =>
    this.#unlessEnded(() => this.#run.effect(name, run, options));

  ask<Answer>(question: string | AskOptions): Promise<Answer> {
    return this.#unlessEnded(() => this.#run.ask<Answer>(question));
  }

  remember<Value>(name: string, make: () => Value): Value {
    return this.#run.remember(name, make);
  }

  stepDone(trigger = "step"): Promise<void> {
    const done = this.#unlessEnded(() => this.#run.stepDone(trigger));
    // A loop need not wait for it, so a rejection must not be unhandled. All other calls report that the run has ended, and the
    // end of the turn reports a state that cannot be stored.
    done.catch(() => {});
    return done;
  }

  async complete(output?: unknown): Promise<RunResult> {
    return this.#finish(this.#run.complete(output));
  }

  async fail(reason: unknown): Promise<RunResult> {
    return this.#finish(this.#run.fail(toReason(reason ?? "the run failed")), isEndedError(reason));
  }

  async release(): Promise<void> {
    await this.#execution.release();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  /** Rejects when the run ends. An effect that is started after that never settles. */
  #unlessEnded<T>(start: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#ended) return reject(this.#ended);
      this.#rejects.add(reject);
      start().then(
        (value) => {
          this.#rejects.delete(reject);
          resolve(value);
        },
        (error: Error) => {
          this.#rejects.delete(reject);
          reject(error);
        },
      );
    });
  }

  /** @param isKnown whether the caller has received an error that reports the end of the run */
  async #finish(completion: Completion<unknown>, isKnown = false): Promise<RunResult> {
    this.#end(completion);
    const result = await this.#execution.finished;
    if (result.status !== completion.status && !isKnown) throw endedError(result);
    return result;
  }
}

/** The errors that report the end of an open run. */
const ENDED_ERRORS = new WeakSet<Error>();
const MAX_CAUSES = 8;

/** Whether a thrown value, or one of its causes, reports the end of an open run. Never throws. */
function isEndedError(thrown: unknown): boolean {
  try {
    for (let each = thrown, depth = 0; isError(each) && depth < MAX_CAUSES; each = each.cause, depth++) {
      if (ENDED_ERRORS.has(each)) return true;
    }
  } catch {
    // A getter of an error has thrown.
  }
  return false;
}

/** The error of calls to an open run that has ended. */
function endedError(result: RunResult): SavepointError {
  const error = buildEndedError(result);
  ENDED_ERRORS.add(error);
  return error;
}

function buildEndedError(result: RunResult): SavepointError {
  const { session, branch, status } = result;
  const where = describeBranch(session, branch);
  const details = { sessionId: session, branch, status };
  if (result.status === "waiting") {
    const { questions } = result;
    const unknown = questions.filter(({ kind }) => kind !== "ask").map(({ call }) => JSON.stringify(call?.name));
    const why =
      unknown.length > 0
        ? `${unknown.join(", ")} was interrupted, and whether it happened is unknown. Answer with sp.answer(session, { happened: true, result }) or { happened: false }, and open the turn again.`
        : `${result.question?.text ?? "it has asked a question"} Answer with sp.answer(session, value), and open the turn again.`;
    return new SavepointError("OUTCOME_UNKNOWN", `${where} waits for a person: ${why}`, {
      details: { ...details, questions },
    });
  }
  const why = result.reason === undefined ? "" : `: ${result.reason}`;
  return new SavepointError(
    "RUN_ENDED",
    `${where} is ${status}${why}. Nothing more is executed or recorded in this turn.`,
    {
      details: { ...details, reason: result.reason },
    },
  );
}
