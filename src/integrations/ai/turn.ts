/** The state that the models and tools of a turn share: the run, the transcript, and which streamed reply called which tool. */
import type { EffectContext, OpenRun, OpenToolOptions } from "../../index.js";
import { isValidInput } from "./input-schema.js";
import { PromptDigest } from "./prompt-digest.js";
import { contentOf, type RecordedReply, usageOf } from "./reply.js";
import { type AiState, type CallOptions, type Generated, isObject, type SdkPart } from "./sdk.js";
import type { Transcript } from "./transcript.js";

/** Options of a recorded model. */
export interface ModelOptions {
  /**
   * Distinguishes models that are called in parallel in one turn.
   * @default "model"
   */
  readonly name?: string;
  /**
   * Set this for calls that do not belong to the conversation, such as calls for a title, a classification or a summary.
   * @default false
   */
  readonly aside?: boolean;
}

/** A turn of the SDK's loop, as an open run. */
export class Turn {
  readonly #run: OpenRun<AiState>;
  readonly #transcript: Transcript;
  /** Replies that are not recorded yet, by the ids of the tool calls that were streamed with them. */
  readonly #pending = new Map<string, Promise<unknown>>();
  /** The schemas of the inputs of wrapped tools, by the name of the tool. */
  readonly #schemas = new Map<string, Set<unknown>>();
  /** The names of wrapped tools for which the SDK calls other user code before `execute`. */
  readonly #indirectTools = new Set<string>();
  /** The digests of the prompts of each model, by its name. */
  readonly #digests = new Map<string, PromptDigest>();
  /** The error of a checkpoint that could not be saved. */
  #failure: { readonly error: unknown } | undefined;

  constructor(run: OpenRun<AiState>, transcript: Transcript) {
    this.#run = run;
    this.#transcript = transcript;
  }

  /**
   * Calls a model and records its reply, or replays the recorded reply. For a replay, the assistant and tool messages of the prompt
   * must equal those of the recorded call, because the loop derives them from recorded effects. User and system messages may
   * differ.
   *
   * The reply may not be durable yet. Call {@link flushVisible} before the SDK gets it, or the end of its stream.
   *
   * @param call calls the model
   */
  async callModel(
    { name = "model", aside = false }: ModelOptions,
    { prompt }: CallOptions,
    call: (signal: AbortSignal) => Promise<RecordedReply>,
  ): Promise<RecordedReply> {
    if (!aside && this.#transcript.addPrompt(prompt)) {
      this.#run.state = this.#transcript.state;
      // If the next reply comes at once, the checkpoint is part of its write. Each checkpoint has a new state, which is never
      // modified.
      this.#run.stepDone().catch((error: unknown) => (this.#failure = { error }));
    }
    const digest = this.#digests.get(name) ?? new PromptDigest();
    this.#digests.set(name, digest);
    const input = digest.of(prompt.filter(({ role }) => role === "assistant" || role === "tool"));
    const reply = (await this.#run.llm(({ signal }) => call(signal), {
      name,
      input,
      usage: usageOf as (reply: unknown) => { tokens: number } | undefined,
      early: true,
    })) as RecordedReply;
    if (this.#failure) throw this.#failure.error;
    if (!aside) this.#transcript.addReply(contentOf(reply));
    return reply;
  }

  /**
   * Resolves when a reply may be shown to the SDK: when it is durable, or at once if its only use is to execute wrapped tools.
   * The first of these tools waits until the reply is durable, and no part of the reply is visible before the tools have ended.
   * For a reply with an invalid call, this waits, because the SDK executes no tool for the call, and the loop may end with the
   * reply.
   */
  async flushVisible({ content, finishReason }: Generated): Promise<void> {
    const reason = isObject(finishReason) ? finishReason["unified"] : finishReason;
    const isCall = ({ type, toolName, providerExecuted, input }: SdkPart): boolean =>
      type === "tool-call" && providerExecuted !== true && this.#isExecuted(String(toolName), input);
    // With most other reasons, the loop ends without executing the tools.
    const isInternal = reason === "tool-calls" && content.length > 0 && content.every(isCall);
    if (!isInternal) await this.#run.flush();
  }

  /**
   * Registers a wrapped tool.
   *
   * @param inputSchema the schema of its input
   * @param isDirect whether the SDK calls no other user code before it executes the tool
   */
  addTool(name: string, inputSchema: unknown, isDirect: boolean): void {
    if (!isDirect) this.#indirectTools.add(name);
    this.#schemas.set(name, (this.#schemas.get(name) ?? new Set()).add(inputSchema));
  }

  /** Whether the SDK certainly executes a call, and calls no other user code before that. */
  #isExecuted(name: string, input: unknown): boolean {
    const schemas = this.#schemas.get(name);
    if (!schemas || this.#indirectTools.has(name)) return false;
    return [...schemas].every((schema) => isValidInput(input, schema));
  }

  /** Delays a tool call until the reply that it was streamed with is recorded. */
  addPendingCall(toolCallId: string, reply: Promise<unknown>): void {
    this.#pending.set(toolCallId, reply);
    const remove = (): void => void this.#pending.delete(toolCallId);
    reply.then(remove, remove);
  }

  /** Runs a tool and records its result, or replays the recorded one. */
  async callTool<Result>(
    call: { readonly id: string; readonly name: string; readonly arguments: unknown },
    run: (context: EffectContext) => Promise<Result>,
    options: OpenToolOptions,
  ): Promise<Result> {
    await this.#pending.get(call.id);
    return (await this.#run.tool(call, run, options as OpenToolOptions<Awaited<Result>>)) as Result;
  }

  /** Keeps the output of a tool for the transcript, in case no later prompt contains it. */
  addToolOutput(toolCallId: string, toolName: string, output: () => unknown): void {
    this.#transcript.addToolOutput(toolCallId, { toolName, output });
  }
}
