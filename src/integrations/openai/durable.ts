/**
 * A turn of the SDK's loop, from `durable()` to `complete()`. Its model calls and tool calls are recorded, and replayed when the turn is
 * started again after a crash.
 */
import type {
  AgentInputItem,
  Runner,
  RunResult as AgentRunResult,
  RunState,
  RunToolApprovalItem,
  Session,
} from "@openai/agents-core";
import {
  isSavepointError,
  type OpenRun,
  type OpenRunOptions,
  type Question,
  type RunResult,
  type Savepoint,
} from "../../index.js";
import { type AgentLike, type DurableAgentOptions, AgentWrapper } from "./agent.js";
import { applyAnswer, snapshotRunState, toQuestion } from "./approvals.js";
import { isEqualItem } from "./item-log.js";
import type { ToolPolicies } from "./policies.js";
import { copyDefined, invalidArgument, isObject, loadSdk, type Sdk } from "./sdk.js";
import { type OpenAiState, parseState } from "./state.js";
import { Turn } from "./turn.js";

/** Which turn of which session to open. */
export interface DurableOptions extends Omit<OpenRunOptions, "initial" | "receive"> {
  /**
   * The runner that runs the agents. Models that agents have by name only come from it.
   * @default the SDK's default runner
   */
  readonly runner?: Runner;
}

/** A turn that waits for approvals. */
export interface WaitingTurn {
  readonly status: "waiting";
  readonly session: string;
  readonly branch: string;
  /** The questions that `sp.answer()` has to answer. */
  readonly questions: readonly Question[];
  readonly output?: undefined;
}

/** An open turn of a session. */
export interface DurableTurn extends AsyncDisposable {
  readonly branch: string;
  /**
   * The history of the session, for the SDK: `run(agent, input, { session: turn.session })`. It belongs to the turn until the turn is
   * completed, so a turn that is started again sees what the first attempt saw.
   */
  readonly session: Session;
  /** Aborted when the turn is cancelled or has lost its lease. Pass it to the SDK as `signal` to stop early. */
  readonly signal: AbortSignal;
  /** The result of this turn, if it was completed before. Running the agent again replays it without any effect. */
  readonly finished: RunResult<OpenAiState> | undefined;

  /**
   * Wraps an agent, with all agents that it hands off to or uses as tools: the replies of their models and the results of their tools are
   * recorded, and those of an interrupted turn are replayed. The original agents are unchanged.
   *
   * @param policies what to do if a tool call was interrupted, by the name of the tool; by default `ask`
   */
  agent<Wrapped extends AgentLike>(agent: Wrapped, policies?: ToolPolicies, options?: DurableAgentOptions): Wrapped;

  /**
   * Asks a person about the tool calls that need approval, and applies the answers to `result.state`. If it returns `true`, run the agent
   * again with `result.state`. `false` means that nothing needs approval, or that an answer is missing: then the turn waits and is
   * released, and {@link complete} returns its questions. Answer them with `sp.answer()`, and open the turn again.
   *
   * @example
   * let result = await run(agent, input, { session: turn.session });
   * while (await turn.approved(result)) result = await run(agent, result.state, { session: turn.session });
   */
  approved(result: ApprovableResult): Promise<boolean>;

  /**
   * Ends the turn. Pass the SDK's result: its items become the history of the session, and its final output is the output of the turn. A
   * result that needs approval does not end the turn: see {@link approved}.
   */
  complete(result: object): Promise<RunResult<OpenAiState> | WaitingTurn>;
  /** Ends the turn as failed. Opening the same turn again resumes it. */
  fail(error: unknown): Promise<RunResult<OpenAiState>>;
  /** Releases the turn without ending it, so that this or another process can open it again. */
  release(): Promise<void>;
}

/** A result of the SDK, streamed or not. */
export interface ApprovableResult {
  readonly interruptions?: readonly object[] | undefined;
  readonly state: object;
  readonly completed?: Promise<void>;
}

/**
 * Opens a turn of a session for the loop of the OpenAI Agents SDK.
 *
 * @example
 * const turn = await durable(sp, { session: "order-42", turn: "message-1" });
 * const result = await run(turn.agent(shop, { charge: { onUnknown: "retry" } }), "charge three times", { session: turn.session });
 * await turn.complete(result);
 */
export async function durable(sp: Savepoint, options: DurableOptions): Promise<DurableTurn> {
  const opener: unknown = sp;
  if (typeof (opener as Partial<Savepoint> | undefined)?.openRun !== "function") {
    throw invalidArgument("durable() needs an open Savepoint: durable(await Savepoint.open(url), { session }).");
  }
  const { runner, ...opened } = options;
  const sdk = await loadSdk();
  const run = await sp.openRun<OpenAiState>({
    ...opened,
    initial: () => ({ messages: [], turn: { from: 0, done: true } }),
    receive: (state) => {
      const { messages, operations } = parseState(opened.session, state);
      return { messages, turn: { from: messages.length, done: true }, ...(operations && { operations }) };
    },
  });
  try {
    return new Durable(run, sdk, runner);
  } catch (error) {
    // If it cannot be released, its lease expires; the first error is the one to report.
    await run.release().catch(() => {});
    throw error;
  }
}

class Durable implements DurableTurn {
  readonly session: Session;
  readonly #run: OpenRun<OpenAiState>;
  readonly #turn: Turn;
  readonly #agents: AgentWrapper;
  #waiting: WaitingTurn | undefined;

  constructor(run: OpenRun<OpenAiState>, sdk: Sdk, runner: Runner | undefined) {
    this.#run = run;
    this.#turn = new Turn(run);
    this.#agents = new AgentWrapper(this.#turn, sdk, runner);
    this.session = new sdk.MemorySession({ sessionId: run.session, initialItems: [...this.#turn.history] });
  }

  get branch(): string {
    return this.#run.branch;
  }

  get signal(): AbortSignal {
    return this.#run.signal;
  }

  get finished(): RunResult<OpenAiState> | undefined {
    return this.#run.finished;
  }

  agent<Wrapped extends AgentLike>(
    agent: Wrapped,
    policies: ToolPolicies = {},
    options: DurableAgentOptions = {},
  ): Wrapped {
    return this.#agents.wrap(agent, policies, options);
  }

  async approved(result: ApprovableResult): Promise<boolean> {
    await result.completed;
    const items = (result.interruptions ?? []) as readonly RunToolApprovalItem[];
    if (items.length === 0 || this.#waiting) return false;
    const state = result.state as RunState<unknown, never>;
    if (!this.finished) this.#turn.addRunState(snapshotRunState(state));
    try {
      const answers = await Promise.all(items.map((item) => this.#run.ask(toQuestion(item))));
      for (const [index, item] of items.entries()) applyAnswer(state, item, answers[index]);
      return true;
    } catch (error) {
      const questions = isSavepointError(error, "OUTCOME_UNKNOWN") ? error.details["questions"] : undefined;
      if (!Array.isArray(questions)) throw error;
      const { session, branch } = this.#run;
      this.#waiting = { status: "waiting", session, branch, questions: questions as Question[] };
      return false;
    }
  }

  async complete(result: object): Promise<RunResult<OpenAiState> | WaitingTurn> {
    const ended = parseResult(result);
    // A stream that has failed rejects here, with the error of the run.
    await ended.completed;
    if (ended.interruptions.length > 0 && (await this.approved(ended as ApprovableResult))) {
      throw invalidArgument(
        "The approvals that the run waits for are answered. Run the agent again with result.state, and complete the turn with the new result.",
      );
    }
    if (this.#waiting) return this.#waiting;
    const messages = copyDefined(await this.#itemsAfter(ended.history));
    this.#run.state = this.#turn.toEndState(messages);
    return this.#run.complete(ended.finalOutput);
  }

  async fail(error: unknown): Promise<RunResult<OpenAiState>> {
    // The next turn continues the conversation so far. This turn, opened again, starts with its own history.
    const stored = await this.session.getItems();
    const { items, history } = this.#turn;
    const messages = copyDefined(stored.length > history.length || items.length === 0 ? stored : items);
    this.#run.state = this.#turn.toEndState(messages);
    return this.#run.fail(error);
  }

  async release(): Promise<void> {
    await this.#run.release();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  /** The items of the session after the turn: those that the SDK has stored, or those of the run if it was called without the session. */
  async #itemsAfter(ran: readonly AgentInputItem[]): Promise<readonly AgentInputItem[]> {
    const stored = await this.session.getItems();
    const { history } = this.#turn;
    if (stored.length !== history.length || !isEqualItem(copyDefined(stored), history)) return stored;
    const isContinued = isEqualItem(copyDefined(ran.slice(0, history.length)), history);
    return isContinued ? ran : [...history, ...ran];
  }
}

/** Reads a result of the SDK, streamed or not. */
function parseResult(result: unknown): AgentRunResult<unknown, never> & { readonly completed?: Promise<void> } {
  if (isObject(result) && "state" in result && "history" in result && "interruptions" in result) {
    return result as unknown as AgentRunResult<unknown, never>;
  }
  throw invalidArgument("turn.complete() needs the result of run(): await turn.complete(await run(agent, input)).");
}
