/**
 * Models whose replies are recorded, and replayed when an interrupted turn is started again.
 *
 * The SDK gets a generated reply after the reply is durable, unless the only use of the reply is to execute wrapped tools. It
 * gets a streamed reply part by part while the reply is recorded, but the end of the reply, from the part `finish` on, only after
 * the whole reply is durable. So a caller that has seen the end of a reply never gets a different reply to the same call.
 */
import { AsyncResource } from "node:async_hooks";
import {
  recordGenerated,
  type RecordedReply,
  type RecordedStream,
  recordParts,
  toGenerated,
  toStream,
} from "./reply.js";
import {
  anySignal,
  type CallOptions,
  type Generated,
  invalidArgument,
  isObject,
  type SdkModel,
  type SdkPart,
  type Streamed,
} from "./sdk.js";
import type { ModelOptions, Turn } from "./turn.js";

/** Wraps a model so that its replies are recorded. The wrapped model keeps its specification and all other properties. */
export function wrapModel<Model extends object>(model: Model, turn: Turn, options: ModelOptions): Model {
  const inner = checkModel(model);
  const doGenerate = (call: CallOptions): Promise<Generated> => generate(inner, turn, options, call);
  const doStream = (call: CallOptions): Promise<Streamed> => stream(inner, turn, options, call);
  return new Proxy(model, {
    get(target, property) {
      if (property === "doGenerate") return doGenerate;
      if (property === "doStream") return doStream;
      // `this` must be the model and not the proxy, because the model may have private fields.
      const value: unknown = Reflect.get(target, property, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}

function checkModel(model: unknown): SdkModel {
  if (typeof model === "string") {
    throw invalidArgument(
      `run.model() needs a model object, got the name ${JSON.stringify(model)}. Get the model from its provider, or with gateway(${JSON.stringify(model)}) of the AI SDK.`,
    );
  }
  const { doGenerate, doStream } = isObject(model) ? model : {};
  if (typeof doGenerate === "function" && typeof doStream === "function") return model as unknown as SdkModel;
  throw invalidArgument(
    "run.model() needs a language model of the AI SDK: an object with doGenerate() and doStream().",
  );
}

async function generate(model: SdkModel, turn: Turn, options: ModelOptions, call: CallOptions): Promise<Generated> {
  let live: Generated | undefined;
  const recorded = await turn.callModel(options, call, async (signal) => {
    live = await model.doGenerate({ ...call, abortSignal: anySignal(signal, call.abortSignal) });
    return recordGenerated(live);
  });
  if (!live) return toGenerated(recorded);
  await turn.flushVisible(live);
  return live;
}

async function stream(model: SdkModel, turn: Turn, options: ModelOptions, call: CallOptions): Promise<Streamed> {
  const live = new LiveStream(turn);
  const reply: Promise<RecordedReply> = turn.callModel(options, call, (signal) =>
    live.record((abortSignal) => model.doStream({ ...call, abortSignal }), anySignal(signal, call.abortSignal)),
  );
  const recorded = reply.then(toStream);
  live.endWhen(recorded);
  // If the model is called, `live.started` resolves as soon as the stream starts. If the reply is replayed, it never resolves.
  return Promise.race([
    live.started,
    recorded.then((stored) => (live.hasStarted ? live.started : replayStream(stored))),
  ]);
}

/** A stream that is passed on to the SDK while it is recorded. */
class LiveStream {
  /** The result of `doStream` for the SDK. Resolves as soon as the model starts to reply. */
  readonly started: Promise<Streamed>;
  readonly #turn: Turn;
  readonly #start: (streamed: Streamed) => void;
  readonly #output: ReadableStream<SdkPart>;
  readonly #controller: ReadableStreamDefaultController<SdkPart>;
  /** Aborted when the SDK cancels the stream, or when recording the reply has failed. */
  readonly #stopped = new AbortController();
  /** Passes a part on to the SDK, in the async context of the SDK's call and not in that of the recorded call. */
  readonly #pass: (part: SdkPart) => void;
  /** The parts from `finish` on, which are passed on after the whole reply is durable. */
  readonly #held: SdkPart[] = [];
  #recorded: Promise<RecordedStream> | undefined;
  #hasStarted = false;
  /** Whether the model has streamed an error part. The SDK gets that part, and the end of such a reply is not held back. */
  #hasFailed = false;

  constructor(turn: Turn) {
    this.#turn = turn;
    let start: (streamed: Streamed) => void = () => {};
    this.started = new Promise<Streamed>((resolve) => (start = resolve));
    this.#start = start;
    let controller: ReadableStreamDefaultController<SdkPart> | undefined;
    this.#output = new ReadableStream<SdkPart>({
      start: (given) => void (controller = given),
      cancel: (reason) => this.#stopped.abort(reason ?? new Error("The stream was cancelled.")),
    });
    this.#controller = controller as unknown as ReadableStreamDefaultController<SdkPart>;
    this.#pass = AsyncResource.bind((part: SdkPart): void => {
      if (!this.#stopped.signal.aborted) this.#controller.enqueue(part);
    });
  }

  get hasStarted(): boolean {
    return this.#hasStarted;
  }

  /** Calls the model and reads its stream to the end, or until a signal is aborted. */
  async record(call: (signal: AbortSignal) => PromiseLike<Streamed>, aborted: AbortSignal): Promise<RecordedStream> {
    const signal = anySignal(aborted, this.#stopped.signal);
    const { stream: source, request, response } = await call(signal);
    this.#hasStarted = true;
    this.#start({ stream: this.#output, request, ...(response && { response }) });
    const parts: SdkPart[] = [];
    for await (const part of readParts(source, signal)) {
      if (part.type === "error") this.#hasFailed = true;
      if (part.type === "tool-call" && this.#recorded) {
        this.#turn.addPendingCall(String(part["toolCallId"]), this.#recorded);
      }
      parts.push(part);
      const isEnd = this.#held.length > 0 || part.type === "finish";
      if (isEnd && !this.#hasFailed) this.#held.push(part);
      else this.#pass(part);
    }
    if (this.#hasFailed) throw new Error("The model's stream reported an error.");
    return recordParts(parts, response);
  }

  /** Ends the output when the reply is durable, or fails the output when recording the reply has failed. */
  endWhen(recorded: Promise<RecordedStream>): void {
    this.#recorded = recorded;
    const { signal } = this.#stopped;
    recorded
      .then(async (reply) => this.#turn.flushVisible(toGenerated(reply)))
      .then(
        () => {
          for (const part of this.#held) this.#pass(part);
          if (!signal.aborted) this.#controller.close();
        },
        (error: unknown) => {
          if (signal.aborted) return;
          // If the model has streamed an error, the SDK already has the error as a part.
          if (this.#hasFailed) this.#controller.close();
          else this.#controller.error(error);
          this.#stopped.abort(error);
        },
      );
  }
}

/**
 * Reads the parts of a stream until it ends. When the signal is aborted, or if it already is, cancels the stream and throws the
 * reason of the abort. The stream is cancelled because not every model obeys the signal.
 */
async function* readParts(source: ReadableStream<SdkPart>, signal: AbortSignal): AsyncGenerator<SdkPart> {
  const reader = source.getReader();
  // A failure to cancel is ignored, because the caller gets the reason of the abort.
  const cancel = (): void => void reader.cancel(signal.reason).catch(() => {});
  // A signal that was aborted while the model was called does not emit "abort" again.
  if (signal.aborted) cancel();
  else signal.addEventListener("abort", cancel);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      signal.throwIfAborted();
      if (done) return;
      yield value;
    }
  } finally {
    signal.removeEventListener("abort", cancel);
  }
}

/** The stream of a recorded reply. */
function replayStream({ parts, response }: RecordedStream): Streamed {
  const output = new ReadableStream<SdkPart>({
    start(controller) {
      for (const part of parts) controller.enqueue(part);
      controller.close();
    },
  });
  return { stream: output, ...(response && { response }) };
}
