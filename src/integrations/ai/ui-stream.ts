/**
 * UI message streams of the SDK that survive: their chunks are recorded while the turn runs, and every reader, the first one too,
 * reads what is recorded. So the turn does not depend on any reader, and a reader can come back at any time, to any process.
 */
import type { UIMessage, UIMessageStreamOptions } from "ai";
import {
  type Duration,
  isSavepointError,
  type OpenRun,
  type Savepoint,
  SavepointError,
  type StreamEnd,
  type StreamEvent,
} from "../../index.js";
import { type AiState, invalidArgument, isObject } from "./sdk.js";
import { parseState } from "./transcript.js";
import { type Chunk, TextIds, toChunks } from "./ui-chunks.js";
import { continuedMessage } from "./ui-messages.js";

/** The name under which the chunks of a turn are recorded. */
const UI = "ui";

/** A result of `streamText` or of an agent; or a stream of chunks, such as that of `createUIMessageStream`. */
export type UIStreamSource =
  | { toUIMessageStream(...args: never[]): AsyncIterable<object> }
  | ReadableStream<object>
  | AsyncIterable<object>;

interface ResponseOptions {
  readonly headers?: NonNullable<ResponseInit["headers"]>;
  /**
   * How long to wait for a process that resumes an interrupted turn. After that, the connection is closed with an error, so that the
   * client reconnects or reports the error.
   * @default "5s"
   */
  readonly patience?: Duration;
}

/** Options of {@link resumeUIMessageStreamResponse}. */
export interface ResumeOptions extends ResponseOptions {
  /** @default "main" */
  readonly branch?: string;
}

/** Options of `run.toUIMessageStreamResponse()`: those of the SDK, without `generateMessageId`. */
export type UIResponseOptions<Message extends UIMessage = UIMessage> = Omit<
  UIMessageStreamOptions<Message>,
  "generateMessageId"
> &
  ResponseOptions & { readonly status?: number; readonly statusText?: string };

const HEADERS: Readonly<Record<string, string>> = {
  "content-type": "text/event-stream",
  "cache-control": "no-cache",
  connection: "keep-alive",
  "x-vercel-ai-ui-message-stream": "v1",
  // Proxies such as nginx must not collect the stream.
  "x-accel-buffering": "no",
};

/** The properties of chunks whose strings add up. */
const APPENDED: ReadonlyMap<string, string> = new Map([
  ["text-delta", "delta"],
  ["reasoning-delta", "delta"],
  ["tool-input-delta", "inputTextDelta"],
]);

/** The codes of errors after which another process, or a later call, may resume the turn. */
const RELEASED: readonly string[] = ["OUTCOME_UNKNOWN", "RUN_ENDED", "LEASE_LOST", "CLOSED"];

/**
 * The response to a browser that requests the reply in progress, such as `useChat({ resume: true })`: the reply from its beginning,
 * then live, in any process. Status 204 if no reply is in progress.
 *
 * @example
 * app.get("/api/chat/:id/stream", (c) => resumeUIMessageStreamResponse(sp, c.req.param("id")));
 */
export async function resumeUIMessageStreamResponse(
  sp: Savepoint,
  chatId: string,
  options: ResumeOptions = {},
): Promise<Response> {
  const { branch = "main", patience = "5s" } = options;
  const info = await sp.sessions.load(chatId, { branch }).catch((error: unknown) => {
    // No session has such an id.
    if (isSavepointError(error, "INVALID_ID")) return undefined;
    throw error;
  });
  const isActive = info?.status === "running" || info?.status === "interrupted";
  if (!isActive) return new Response(null, { status: 204 });
  const state = (await sp.session<AiState>(chatId, { branch }).latest())?.state;
  // The client builds the message from the stream alone, so it needs what the message contained before this turn, too.
  const continued = Array.isArray(state?.messages) ? continuedMessage(parseState(chatId, state)) : undefined;
  const events = sp.stream(chatId, { branch, patience });
  return toResponse(events, options, continued ? toChunks(continued) : []);
}

/** A response that follows the recorded chunks of a turn. */
export function followTurn(
  sp: Savepoint,
  { session, branch, turn }: OpenRun<AiState>,
  options: UIResponseOptions,
): Response {
  return toResponse(sp.stream(session, { branch, turn, patience: options.patience ?? "5s" }), options);
}

function toResponse(
  events: AsyncGenerator<StreamEvent, StreamEnd>,
  { headers, status = 200, statusText = "" }: UIResponseOptions,
  continued: readonly Chunk[] = [],
): Response {
  const merged = new Headers(HEADERS);
  new Headers(headers).forEach((value, name) => merged.set(name, value));
  return new Response(toBody(events, continued), { status, statusText, headers: merged });
}

/**
 * The chunks as server-sent events. They are read as fast as the client reads them.
 *
 * @param continued what follows the first chunk: the earlier parts of the message
 */
function toBody(
  events: AsyncGenerator<StreamEvent, StreamEnd>,
  continued: readonly Chunk[],
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const encode = (chunk: Chunk): Uint8Array => encoder.encode(`data: ${JSON.stringify(chunk)}\n\n`);
  let last: string | undefined;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          for (;;) {
            const { done, value } = await events.next();
            if (done) {
              const end = endOf(value, last);
              if (end) controller.enqueue(encode(end));
              controller.enqueue(encoder.encode("data: [DONE]\n\n"));
              return controller.close();
            }
            if (value.type === "reset") throw brokenOff("another attempt of the turn has replaced it");
            if (value.name !== UI) continue;
            const isFirst = last === undefined;
            last = (value.delta as Chunk).type;
            controller.enqueue(encode(value.delta as Chunk));
            if (isFirst) for (const chunk of continued) controller.enqueue(encode(chunk));
            return;
          }
        } catch (error) {
          controller.error(error);
        }
      },
      async cancel() {
        await events.return({ status: "running", reason: undefined });
      },
    },
    { highWaterMark: 0 },
  );
}

/** The chunk that tells the client how the turn has ended, if the last chunk does not. */
function endOf({ status, reason = "" }: StreamEnd, last: string | undefined): Chunk | undefined {
  if (status === "interrupted") throw brokenOff("no process has resumed the turn");
  if (status === "completed" || last === "error" || last === "abort") return undefined;
  if (status === "halted" && reason.startsWith("cancelled")) return { type: "abort", reason };
  const errorText = status === "waiting" ? "The reply waits for an answer." : "The reply was stopped by an error.";
  return { type: "error", errorText };
}

/** A client that gets this error reconnects, and gets the reply from its beginning. */
function brokenOff(why: string): SavepointError {
  return new SavepointError(
    "STREAM_LOST",
    `The stream of the reply was closed: ${why}. Reconnect to get the complete reply.`,
  );
}

/** How the SDK's stream has ended. */
export type StreamOutcome = { readonly failure: unknown } | { readonly failure?: never };

/** A turn of the SDK's loop whose chunks are recorded. */
export class UIStream {
  readonly #source: UIStreamSource;
  readonly #options: UIResponseOptions;
  readonly #messageId: string;
  #error: unknown;

  /** @param messageId the id of the message that the turn adds */
  constructor(source: UIStreamSource, options: UIResponseOptions, messageId: string) {
    this.#source = source;
    this.#options = options;
    this.#messageId = messageId;
  }

  /** The SDK's result, if the source is one. */
  get result(): unknown {
    return "toUIMessageStream" in this.#source ? this.#source : undefined;
  }

  /** Reads the chunks to their end, and records them. Never rejects. */
  async record(run: OpenRun<AiState>): Promise<StreamOutcome> {
    let failure: StreamOutcome = {};
    try {
      for await (const chunk of this.#chunks()) {
        if (chunk.type === "error") failure = { failure: this.#error ?? new Error(String(chunk["errorText"])) };
        if (chunk.type === "abort") failure = { failure: new Error("The stream was aborted.") };
        const append = APPENDED.get(chunk.type);
        // A client that has the end of the reply may ask for the next one at once.
        if (chunk.type === "finish") await run.emit(UI, chunk, { atEnd: true });
        else await run.emit(UI, chunk, append === undefined ? {} : { append });
      }
    } catch (error) {
      return { failure: error };
    }
    return failure;
  }

  async *#chunks(): AsyncGenerator<Chunk> {
    const ids = new TextIds();
    for await (const chunk of this.#open()) {
      if (!isObject(chunk) || typeof chunk["type"] !== "string") {
        throw invalidArgument("run.toUIMessageStreamResponse() needs a stream of chunks, each with a type.", { chunk });
      }
      // Each attempt of the turn has the same id, also if the source generates another one each time.
      if (chunk["type"] === "start") yield { ...chunk, type: "start", messageId: this.#messageId };
      else yield ids.rename(chunk as Chunk);
    }
  }

  #open(): AsyncIterable<object> {
    const source = this.#source;
    if (!("toUIMessageStream" in source)) return source as AsyncIterable<object>;
    const { headers: _, patience: __, status: ___, statusText: ____, onError, ...options } = this.#options;
    const open = source.toUIMessageStream.bind(source) as (
      given: UIMessageStreamOptions<UIMessage>,
    ) => AsyncIterable<object>;
    return open({
      ...options,
      generateMessageId: () => this.#messageId,
      onError: (error) => {
        this.#error = error;
        return onError?.(error) ?? "An error occurred.";
      },
    });
  }

  /** The chunks of a turn that was completed before, as a response. Nothing is recorded. */
  toReplay(): Response {
    const chunks = this.#chunks();
    async function* replay(): AsyncGenerator<StreamEvent, StreamEnd> {
      for await (const delta of chunks) yield { type: "delta", id: "", name: UI, delta };
      return { status: "completed", reason: undefined };
    }
    return toResponse(replay(), this.#options);
  }
}

/** Whether the turn has not ended: a person must answer first, or another process resumes it. */
export function isReleased(error: unknown): boolean {
  return isSavepointError(error) && RELEASED.includes(error.code);
}
