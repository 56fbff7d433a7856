/** What a turn's models and tools share: the run, what was said, and which reply has called which tool. */
import type { EffectContext, OpenRun, OpenToolOptions } from "../../index.js";
import type { AiState, CallOptions, SdkPart } from "./sdk.js";
import type { Transcript } from "./transcript.js";

/** A model's reply, as it is recorded. */
export interface Asking<Reply> {
  /** Asks it. */
  readonly ask: (signal: AbortSignal) => Promise<Reply>;
  readonly content: (reply: Reply) => readonly SdkPart[];
  readonly usage: (reply: Reply) => { readonly tokens: number } | undefined;
}

export class Turn {
  readonly #run: OpenRun<AiState>;
  readonly #transcript: Transcript;
  /** Replies that are still coming, by the ids of the tool calls that have come with them. */
  readonly #coming = new Map<string, Promise<unknown>>();

  constructor(run: OpenRun<AiState>, transcript: Transcript) {
    this.#run = run;
    this.#transcript = transcript;
  }

  /**
   * Asks a model, or gives what it has replied. Of what it is given the assistant's and the tools' messages must be the same:
   * they are what the loop has made of what was recorded. What people and the program say may change.
   *
   * @param aside what is said is no part of the conversation
   */
  async ask<Reply>(name: string, aside: boolean, { prompt }: CallOptions, asking: Asking<Reply>): Promise<Reply> {
    if (!aside && this.#transcript.asked(prompt)) {
      this.#run.state = this.#transcript.state;
      await this.#run.stepDone();
    }
    const input = prompt.filter(({ role }) => role === "assistant" || role === "tool");
    const reply = (await this.#run.llm(({ signal }) => asking.ask(signal), {
      name,
      input,
      usage: asking.usage as (reply: unknown) => { tokens: number } | undefined,
    })) as Reply;
    if (!aside) this.#transcript.replied(asking.content(reply));
    return reply;
  }

  /** A tool was called by a reply that is still coming: it is not run before that is recorded. */
  calledBy(toolCallId: string, reply: Promise<unknown>): void {
    this.#coming.set(toolCallId, reply);
    const forget = (): void => void this.#coming.delete(toolCallId);
    reply.then(forget, forget);
  }

  /** Runs a tool, or gives what it has returned. */
  async tool<Result>(
    call: { readonly id: string; readonly name: string; readonly arguments: unknown },
    run: (context: EffectContext) => Promise<Result>,
    options: OpenToolOptions,
  ): Promise<Result> {
    await this.#coming.get(call.id);
    return (await this.#run.tool(call, run, options as OpenToolOptions<Awaited<Result>>)) as Result;
  }

  /** A tool has answered: should no model be asked any more, that is where its answer is kept. */
  answered(toolCallId: string, toolName: string, output: () => unknown): void {
    this.#transcript.answered(toolCallId, { toolName, output });
  }
}
