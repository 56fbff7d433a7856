/**
 * A turn of the SDK's loop, from `durable()` to `complete()`. Its model calls and tool calls are recorded, and replayed when
 * the turn is started again after a crash.
 */
import type { OpenRun, OpenRunOptions, RunResult, Savepoint } from "../../index.js";
import { createHash } from "node:crypto";
import { isAnsweredReply, nameAnswer } from "./answers.js";
import { parseMessages } from "./messages.js";
import { wrapModel } from "./model.js";
import { type AiState, invalidArgument, isObject, type ModelMessage } from "./sdk.js";
import { type ToolPolicies, wrapTools } from "./tools.js";
import { parseState, startTurn, Transcript } from "./transcript.js";
import { type ModelOptions, Turn } from "./turn.js";
import {
  followTurn,
  isReleased,
  type StreamOutcome,
  type UIResponseOptions,
  UIStream,
  type UIStreamSource,
} from "./ui-stream.js";

/** Which turn of which session to open. */
export interface DurableOptions extends Omit<OpenRunOptions, "initial" | "receive"> {
  /**
   * The input of the turn. It is stored in the commit that claims the turn, so a turn that has started never lacks it, and
   * `run.messages()` returns it with the messages before. A turn that is resumed keeps the input that it was started with.
   *
   * It may be the last message of `useChat()`, converted: the message of the user, or the last reply with answers to its tool calls
   * (approvals, and results of tools in the browser). Of such a reply, the answers are the input, and `turn` may be its id: each
   * answer is a turn of its own.
   */
  readonly messages?: string | ModelMessage | readonly ModelMessage[] | undefined;
}

/** An open turn of a session. */
export interface DurableRun extends AsyncDisposable {
  readonly session: string;
  readonly branch: string;
  /** Aborted when the run is cancelled or has lost its lease. Pass it to the SDK as `abortSignal` to stop early. */
  readonly signal: AbortSignal;
  /** The result of this turn, if it was completed before. Running the loop again replays it without any effect. */
  readonly finished: RunResult<AiState> | undefined;

  /** Wraps a model: its replies are recorded, and recorded replies of an interrupted turn are replayed. */
  model<Model extends object>(model: Model, options?: ModelOptions): Model;

  /**
   * Wraps tools: their results are recorded before the SDK gets them. Tools without `execute` are returned unchanged.
   *
   * @param policies what to do if a tool call was interrupted, by the name of the tool; by default `ask`
   */
  tools<Tools extends Record<string, object>>(tools: Tools, policies?: ToolPolicies<Tools>): Tools;

  /**
   * The messages of the session so far, and the input of this turn: what to call the SDK with. An interrupted turn resumes
   * with the input that it was started with.
   */
  messages(input?: string | ModelMessage | readonly ModelMessage[]): ModelMessage[];

  /**
   * Streams the reply to the client, and completes the turn when the stream has ended, whether a client reads it or not: do not call
   * {@link complete}. The chunks are recorded, so that a client that has lost the connection gets all of them again from
   * `resumeUIMessageStreamResponse()`, in any process. A client that disconnects does not stop the turn; `sp.cancel()` does.
   *
   * The message has an id that depends on the session and the turn only.
   *
   * @param result of `streamText` or of an agent; or a stream of chunks, such as that of `createUIMessageStream`
   */
  toUIMessageStreamResponse(result: UIStreamSource, options?: UIResponseOptions): Response;

  /**
   * Resolves when the turn that {@link toUIMessageStreamResponse} completes has ended or was released, also if that failed. Pass it
   * to `waitUntil()` or `after()` of a serverless platform, so that it lets the turn complete.
   */
  ended(): Promise<void>;

  /**
   * Ends the turn. Pass the SDK's result: its messages are saved unchanged, including requests for approval, and its text or
   * object is the output of the turn. Any other value is the output itself.
   */
  complete(result?: unknown): Promise<RunResult<AiState>>;
  /** Ends the turn as failed. Opening the same turn again resumes it. */
  fail(error: unknown): Promise<RunResult<AiState>>;
  /** Releases the turn without ending it, so that this or another process can open it again. */
  release(): Promise<void>;
}

/**
 * Opens a turn of a session for the AI SDK's loop.
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
  const { messages, ...rest } = options;
  const input = messages === undefined ? undefined : parseMessages(messages);
  const isAnswer = input !== undefined && isAnsweredReply(input);
  const turn = isAnswer && typeof rest.turn === "string" ? { ...rest, turn: nameAnswer(rest.turn, input) } : rest;
  const start = (state: AiState): AiState => startTurn(state, input, turn.turn);
  const run = await sp.openRun<AiState>({
    ...turn,
    initial: () => start({ messages: [], turn: { from: 0, done: true } }),
    // Any other state is reported when the turn is open.
    receive: (state) =>
      isObject(state) && Array.isArray(state.messages) ? start(parseState(turn.session, state)) : state,
  });
  try {
    return new Durable(sp, run, input !== undefined);
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
  readonly #sp: Savepoint;
  /** Whether the input was passed when the turn was opened. */
  readonly #hasInput: boolean;
  #ended: Promise<void> | undefined;

  constructor(sp: Savepoint, run: OpenRun<AiState>, hasInput: boolean) {
    this.#sp = sp;
    this.#run = run;
    this.#hasInput = hasInput;
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
    const messages = parseMessages(input);
    if (this.#hasInput && messages.length > 0) {
      throw invalidArgument("The input of the turn was passed to durable(). Call run.messages() without another one.");
    }
    return this.#transcript.start(this.#run.remember("messages", () => messages));
  }

  toUIMessageStreamResponse(result: UIStreamSource, options: UIResponseOptions = {}): Response {
    if (!isObject(result) || !("toUIMessageStream" in result || Symbol.asyncIterator in result)) {
      throw invalidArgument(
        "run.toUIMessageStreamResponse() needs the result of streamText(), or a stream of UI message chunks.",
      );
    }
    if (this.#ended) throw invalidArgument("run.toUIMessageStreamResponse() can be called once in a turn.");
    const continued = this.#transcript.continuedId;
    const replyId = continued ?? this.#replyId();
    if (continued === undefined) this.#transcript.replyId = replyId;
    const stream = new UIStream(result, options, replyId);
    const end = (outcome: StreamOutcome): Promise<void> => this.#endStream(stream, outcome);
    if (this.finished) {
      this.#ended = Promise.resolve();
      return stream.toReplay();
    }
    this.#ended = stream.record(this.#run).then(end);
    return followTurn(this.#sp, this.#run, options);
  }

  async ended(): Promise<void> {
    await this.#ended;
  }

  /** The id of the message that this turn adds. It is the same in each attempt, so that a client shows one message. */
  #replyId(): string {
    const { session, branch, turn } = this.#run;
    const hash = createHash("sha256")
      .update(JSON.stringify([session, branch, turn]))
      .digest("base64url");
    return `reply-${hash.slice(0, 16)}`;
  }

  /** Ends the turn when its stream has ended. */
  async #endStream({ result }: UIStream, outcome: StreamOutcome): Promise<void> {
    try {
      if (!("failure" in outcome)) await this.complete(result);
      else if (isReleased(outcome.failure)) await this.release();
      else await this.fail(outcome.failure);
    } catch (error) {
      // The turn waits for a person, or another process has claimed it. Otherwise it could not be saved, and is resumed later.
      await this.release().catch(() => {});
      if (!isReleased(error))
        console.error(`savepoint: a turn of session ${JSON.stringify(this.session)} has not ended:`, error);
    }
  }

  async complete(result?: unknown): Promise<RunResult<AiState>> {
    const { output, messages } = await readResult(result);
    this.#run.state = await this.#transcript.finish(messages);
    return this.#run.complete(output);
  }

  async fail(error: unknown): Promise<RunResult<AiState>> {
    // The next turn continues the conversation so far. This turn, opened again, starts with its own input.
    this.#run.state = await this.#transcript.finish(undefined);
    return this.#run.fail(error);
  }

  async release(): Promise<void> {
    await this.#run.release();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }
}

/** Reads a result of the SDK, of either version, streamed or not. Any other value is the output of the turn. */
async function readResult(
  result: unknown,
): Promise<{ readonly output: unknown; readonly messages: readonly ModelMessage[] | undefined }> {
  if (!isSdkResult(result)) return { output: result, messages: undefined };
  // The fields of a streamed result are promises.
  const response = await result["response"];
  const messages = (await result["responseMessages"]) ?? (isObject(response) ? response["messages"] : undefined);
  const output = "object" in result ? await result["object"] : await result["text"];
  return { output, messages: Array.isArray(messages) ? (messages as ModelMessage[]) : undefined };
}

/** Returns whether a value is a result of `generateText`, `streamText`, `generateObject`, `streamObject` or an agent. */
function isSdkResult(value: unknown): value is Readonly<Record<string, unknown>> {
  return isObject(value) && "response" in value && "finishReason" in value && ("text" in value || "object" in value);
}
