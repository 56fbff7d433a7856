/** What the models and tools of a turn share: the open run, the history, and which agent tool a nested run belongs to. */
import { AsyncLocalStorage } from "node:async_hooks";
import type { AgentInputItem, AgentOutputItem, ModelRequest } from "@openai/agents-core";
import { type EffectContext, isSavepointError, type Json, type OpenRun, type OpenToolOptions } from "../../index.js";
import { ItemLog } from "./item-log.js";
import type { ToolPolicy } from "./policies.js";
import { type RecordedReply, usageOf } from "./reply.js";
import { type OpenAiState, parseState } from "./state.js";

/** The run of an agent that is used as a tool. */
export interface NestedRun {
  readonly turn: Turn;
  /** The ids of the calls that it is nested in, separated by slashes. */
  readonly path: string;
  /** The name of the agent. */
  readonly agent: string;
  /** Identifies the wrapped agents that it belongs to. */
  readonly graph: object;
}

/** The nested run that the current code belongs to. */
export const nestedRuns = new AsyncLocalStorage<NestedRun | undefined>();

/** A tool call as the model has made it. */
export interface CallOfTool {
  readonly id: string;
  readonly name: string;
  readonly arguments: unknown;
}

/** A turn of the SDK's loop, as an open run. */
export class Turn {
  /** The items before this turn. */
  readonly history: readonly AgentInputItem[];
  readonly #run: OpenRun<OpenAiState>;
  /** What a plain session has stored: its transactions are applied once, whatever comes between their attempts. */
  readonly #kept: Pick<OpenAiState, "operations">;
  /** The inputs of the models, by the name under which they are recorded. */
  readonly #logs = new Map<string, ItemLog>();
  /** The input of the last model call of the conversation, and the reply to it. */
  #items: readonly AgentInputItem[] = [];
  #reply: readonly AgentInputItem[] = [];
  #hasReplied = false;
  /** Whether tools are direct, by their names. Agents may have different tools of one name. */
  readonly #directTools = new Map<string, Promise<boolean>>();
  /** The SDK's state of the run when it last needed approval. Later checkpoints keep it, so that the next one writes what has changed. */
  #runState: Json | undefined;
  /** The error of a checkpoint that could not be saved. */
  #failure: { readonly error: unknown } | undefined;

  constructor(run: OpenRun<OpenAiState>) {
    this.#run = run;
    const { messages, operations } = parseState(run.session, run.state);
    // A state in the middle of a turn, without the journal of the turn, is one that a person has edited: all of it is history.
    this.history = messages;
    this.#kept = operations ? { operations } : {};
  }

  /** All items of the conversation that the loop has shown to a model, and the last reply. */
  get items(): readonly AgentInputItem[] {
    return [...this.#items, ...this.#reply];
  }

  /** Adds the SDK's state of a run that needs approval to the checkpoint in which the turn waits. */
  addRunState(state: Json): void {
    this.#runState = state;
    this.#run.state = this.#unfinished();
  }

  /**
   * Calls a model and records its reply, or replays the recorded reply. For a replay, the items that are not from the user or the system
   * must have the same meaning as those of the recorded call, because the loop derives them from recorded effects.
   *
   * @param aside whether the call does not belong to the conversation
   * @param early return the reply before it is durable: call {@link flushVisible} before the SDK gets it
   */
  async callModel(
    { agent, aside, early }: { readonly agent: string; readonly aside: boolean; readonly early: boolean },
    request: ModelRequest,
    call: (signal: AbortSignal) => Promise<RecordedReply>,
  ): Promise<RecordedReply> {
    const nested = this.#nested();
    const name = nested ? `${agent} (${nested.path})` : agent;
    const log = this.#logs.get(name) ?? new ItemLog();
    this.#logs.set(name, log);
    const { items, digest } = log.of(request.input);
    // With a conversation on the server, the input contains only new items.
    const isMain = !aside && !nested && !request.conversationId && !request.previousResponseId;
    if (isMain) this.#addInput(items);
    const reply = (await this.#run.llm(({ signal }) => call(signal), {
      name,
      input: digest,
      usage: usageOf as (reply: unknown) => { tokens: number } | undefined,
      early,
    })) as unknown as RecordedReply;
    if (this.#failure) throw this.#failure.error;
    if (isMain) this.#addReply(reply);
    return reply;
  }

  /**
   * Resolves when a reply may be shown to the SDK: when it is durable, or at once if its only use is to execute direct tools. The first of
   * these tools waits until the reply is durable, and no part of the reply is visible before that.
   */
  async flushVisible(output: readonly AgentOutputItem[]): Promise<void> {
    const isCall = async (item: AgentOutputItem): Promise<boolean> => {
      if (item.type !== "function_call" || !isJsonObject(item.arguments)) return false;
      return (await this.#directTools.get(item.name)) === true;
    };
    const isInternal = output.length > 0 && (await Promise.all(output.map(isCall))).every(Boolean);
    if (!isInternal) await this.#run.flush();
  }

  /** Registers a tool, and whether the SDK calls no other code of the user before it executes the tool. */
  addTool(name: string, isDirect: Promise<boolean>): void {
    const known = this.#directTools.get(name) ?? Promise.resolve(true);
    const areDirect = Promise.all([known, isDirect]).then((all) => all.every(Boolean));
    // A rejection counts when the tool is called.
    areDirect.catch(() => {});
    this.#directTools.set(name, areDirect);
  }

  /** Runs a tool and records its result, or replays the recorded one. */
  async callTool<Result>(
    { id, name, arguments: input }: CallOfTool,
    { onUnknown, timeout, verify }: ToolPolicy,
    stopped: AbortSignal | undefined,
    run: (context: EffectContext) => Promise<Result>,
  ): Promise<Result> {
    const nested = this.#nested();
    const call = { id: nested ? `${nested.path}/${id}` : id, name, arguments: input };
    const options = {
      ...(onUnknown && { onUnknown }),
      ...(timeout !== undefined && { timeout }),
      ...(verify && {
        verify: ({ idempotencyKey, signal, attempt }: EffectContext) =>
          verify({ idempotencyKey, signal, attempt, toolCallId: id, input }),
      }),
      stopped,
    } as OpenToolOptions<Awaited<Result>>;
    // What a tool does is part of its call, also if it runs an agent.
    const execute = (context: EffectContext): Promise<Result> => nestedRuns.run(undefined, () => run(context));
    return (await this.#run.tool(call, execute, options)) as Result;
  }

  /** Runs the agent of an agent tool. Its model and tool calls are recorded, and not the call of the agent tool. */
  async runNested<Result>(
    { id, agent, graph }: { readonly id: string; readonly agent: string; readonly graph: object },
    run: () => Promise<Result>,
  ): Promise<Result> {
    const outer = this.#nested();
    return nestedRuns.run({ turn: this, path: outer ? `${outer.path}/${id}` : id, agent, graph }, run);
  }

  #nested(): NestedRun | undefined {
    const nested = nestedRuns.getStore();
    return nested?.turn === this ? nested : undefined;
  }

  /** A step of the loop ends with each input but the first. */
  #addInput(items: readonly AgentInputItem[]): void {
    this.#items = items;
    this.#reply = [];
    if (!this.#hasReplied) return;
    this.#run.state = this.#unfinished();
    // The checkpoint is part of the write of the next reply, if that comes at once.
    this.#run.stepDone().catch((error: unknown) => (this.#failure = { error }));
  }

  /** The state when the turn has ended. @param messages all items of the session */
  toEndState(messages: readonly AgentInputItem[]): OpenAiState {
    return { messages, turn: { from: this.history.length, done: true }, ...this.#kept };
  }

  #unfinished(): OpenAiState {
    const { items, history } = this;
    const run = this.#runState;
    const from = Math.min(history.length, items.length);
    return { messages: items, turn: { from, done: false }, ...(run !== undefined && { run }), ...this.#kept };
  }

  #addReply({ output }: RecordedReply): void {
    this.#hasReplied = true;
    this.#reply = output as readonly AgentInputItem[];
  }
}

/** Whether an interrupted call is reported to the model, because its policy is `fail`. All other errors have ended the turn. */
export function isForModel(error: unknown): error is Error {
  return isSavepointError(error, "OUTCOME_UNKNOWN") && error.details["questions"] === undefined;
}

/** Whether the arguments of a call are valid JSON. If not, the SDK executes no tool. */
function isJsonObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null;
  } catch {
    return false;
  }
}
