/** The state that the models and tools of a turn share: the run, the transcript, and which streamed reply called which tool. */
import type { EffectContext, OpenRun, OpenToolOptions } from "../../index.js";
import { contentOf, type RecordedReply, usageOf } from "./reply.js";
import type { AiState, CallOptions } from "./sdk.js";
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

  constructor(run: OpenRun<AiState>, transcript: Transcript) {
    this.#run = run;
    this.#transcript = transcript;
  }

  /**
   * Calls a model and records its reply, or replays the recorded reply. For a replay, the assistant and tool messages of the prompt
   * must equal those of the recorded call, because the loop derives them from recorded effects. User and system messages may
   * differ.
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
      await this.#run.stepDone();
    }
    const input = prompt.filter(({ role }) => role === "assistant" || role === "tool");
    const reply = (await this.#run.llm(({ signal }) => call(signal), {
      name,
      input,
      usage: usageOf as (reply: unknown) => { tokens: number } | undefined,
    })) as RecordedReply;
    if (!aside) this.#transcript.addReply(contentOf(reply));
    return reply;
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
