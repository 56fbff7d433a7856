/**
 * A turn of the SDK's loop, from `durable()` to `complete()`: its model calls and tools are recorded, and what was recorded is
 * given again when the same turn is started again after a crash.
 */
import type { OpenRun, OpenRunOptions, RunResult, Savepoint } from "../../index.js";
import { readAnswer } from "./answer.js";
import { invalidArgument } from "./invalid.js";
import { type ModelOptions, wrapModel } from "./model.js";
import { parseMessages } from "./take-messages.js";
import type { AiState, ModelMessage } from "./sdk.js";
import { type ToolPolicies, wrapTools } from "./tools.js";
import { Transcript } from "./transcript.js";
import { Turn } from "./turn.js";

/** Which turn of which session it is. */
export type DurableOptions = Omit<OpenRunOptions, "initial">;

/** A turn of a session, for the SDK to work in. */
export interface DurableRun extends AsyncDisposable {
  readonly session: string;
  readonly branch: string;
  /** Aborted when the run is cancelled or has lost its lease: hand it to the SDK as `abortSignal`, if you like. */
  readonly signal: AbortSignal;
  /** What this turn returned, where it was completed before. Running it once more returns the same, and does nothing. */
  readonly finished: RunResult<AiState> | undefined;

  /** The same model, whose replies are recorded; of a turn that was interrupted it gives those that were. */
  model<Model extends object>(model: Model, options?: ModelOptions): Model;

  /**
   * The same tools, whose results are recorded before the SDK gets them.
   *
   * @param policies what to do about a tool that was interrupted, by its name; `ask`, if it is not said
   */
  tools<Tools extends Record<string, object>>(tools: Tools, policies?: ToolPolicies<Tools>): Tools;

  /**
   * What was said in this session so far, and what is said now. A turn that was interrupted goes on with what it was given
   * when it began.
   */
  messages(input?: string | ModelMessage | readonly ModelMessage[]): ModelMessage[];

  /**
   * Ends the turn. Give the SDK's result itself: its messages are kept as they are, requests for approval among them, and
   * its text or object is what the turn returns. Any other value is what the turn returns.
   */
  complete(result?: unknown): Promise<RunResult<AiState>>;
  /** Ends the turn as failed. Opened by the same name it goes on. */
  fail(error: unknown): Promise<RunResult<AiState>>;
  /** Lets go of the turn as it stands, so that it can be opened again, here or elsewhere. */
  release(): Promise<void>;
}

/**
 * Opens a turn of a session for the AI SDK's own loop.
 *
 * @example
 * const run = await durable(sp, { session: "order-42", agent: "shop" });
 * const result = await generateText({
 *   model: run.model(model),
 *   tools: run.tools({ charge }, { charge: { onUnknown: "retry" } }),
 *   messages: run.messages("charge three times"),
 * });
 * await run.complete(result);
 */
export async function durable(sp: Savepoint, options: DurableOptions): Promise<DurableRun> {
  const opener: unknown = sp;
  if (typeof (opener as Partial<Savepoint> | undefined)?.openRun !== "function") {
    throw invalidArgument("durable() needs an open Savepoint: durable(await Savepoint.open(url), { session }).");
  }
  const initial = (): AiState => ({ messages: [], turn: { from: 0, done: true } });
  const run = await sp.openRun<AiState>({ ...options, initial });
  try {
    return new Durable(run);
  } catch (error) {
    // If it cannot be released, its lease expires; the first error is the one to report.
    await run.release().catch(() => {});
    throw error;
  }
}

class Durable implements DurableRun {
  readonly #run: OpenRun<AiState>;
  readonly #transcript: Transcript;
  readonly #turn: Turn;

  constructor(run: OpenRun<AiState>) {
    this.#run = run;
    this.#transcript = new Transcript(run.session, run.state);
    this.#turn = new Turn(run, this.#transcript);
  }

  get session(): string {
    return this.#run.session;
  }

  get branch(): string {
    return this.#run.branch;
  }

  get signal(): AbortSignal {
    return this.#run.signal;
  }

  get finished(): RunResult<AiState> | undefined {
    return this.#run.finished;
  }

  model<Model extends object>(model: Model, options: ModelOptions = {}): Model {
    return wrapModel(model, this.#turn, options);
  }

  tools<Tools extends Record<string, object>>(tools: Tools, policies?: ToolPolicies<Tools>): Tools {
    return wrapTools(tools, policies ?? {}, this.#turn);
  }

  messages(input: string | ModelMessage | readonly ModelMessage[] = []): ModelMessage[] {
    const said = parseMessages(input);
    return this.#transcript.begin(this.#run.remember("messages", () => said));
  }

  async complete(result?: unknown): Promise<RunResult<AiState>> {
    const { output, messages } = await readAnswer(result);
    this.#run.state = await this.#transcript.end(messages);
    return this.#run.complete(output);
  }

  async fail(error: unknown): Promise<RunResult<AiState>> {
    // What was said is said: the next turn knows it. This one, tried again, begins where it began.
    this.#run.state = await this.#transcript.end(undefined);
    return this.#run.fail(error);
  }

  async release(): Promise<void> {
    await this.#run.release();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }
}
