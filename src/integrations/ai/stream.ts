/**
 * Replies that come in parts. Each part is passed on as it comes; the last ones, which say that the reply is whole, when all of
 * it is recorded. So whoever has seen the end of a reply will never be told another one.
 */
import { AsyncResource } from "node:async_hooks";
import { omit } from "./omit.js";
import { anySignal, type SdkPart, type Streamed } from "./sdk.js";
import type { Turn } from "./turn.js";

/** A stream, as it is recorded. */
export interface RecordedStream {
  readonly parts: readonly SdkPart[];
  readonly response?: Readonly<Record<string, unknown>>;
}

/** A stream that is passed on while it is recorded. */
export interface LiveStream {
  /** Resolves with what the SDK gets, as soon as the model has begun to reply. */
  readonly begun: Promise<Streamed>;
  readonly hasBegun: boolean;
  /** Reads the model's stream to its end, or until it is told to stop. */
  record(ask: (signal: AbortSignal) => PromiseLike<Streamed>, signal: AbortSignal): Promise<RecordedStream>;
  /** Ends what was passed on when it is recorded, or is not going to be. */
  end(recorded: Promise<RecordedStream>): void;
}

/** The stream of a reply that was recorded. */
export function replayStream({ parts, response }: RecordedStream): Streamed {
  const stream = new ReadableStream<SdkPart>({
    start(controller) {
      for (const part of parts) controller.enqueue(part);
      controller.close();
    },
  });
  return { stream, ...(response && { response }) };
}

/** A stream's parts. Told to stop, it is cancelled: not every model listens to the signal it is given. */
async function* untilAborted(source: ReadableStream<SdkPart>, signal: AbortSignal): AsyncGenerator<SdkPart> {
  const reader = source.getReader();
  // That it cannot be cancelled is nothing against why it is.
  const cancel = (): void => void reader.cancel(signal.reason).catch(() => {});
  signal.addEventListener("abort", cancel);
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

export function recordStream(turn: Turn): LiveStream {
  const stopped = new AbortController();
  let begin: (streamed: Streamed) => void = () => {};
  const begun = new Promise<Streamed>((resolve) => (begin = resolve));
  let target: ReadableStreamDefaultController<SdkPart> | undefined;
  const stream = new ReadableStream<SdkPart>({
    start: (controller) => void (target = controller),
    cancel: (reason) => stopped.abort(reason ?? new Error("The stream was cancelled.")),
  });
  // What the SDK does with a part, it does in its own context and not in that of the call which is recorded.
  const pass = AsyncResource.bind((part: SdkPart): void => {
    if (!stopped.signal.aborted) target?.enqueue(part);
  });
  const held: SdkPart[] = [];
  let whole: Promise<RecordedStream> | undefined;
  let failed = false;
  let hasBegun = false;
  return {
    begun,
    get hasBegun() {
      return hasBegun;
    },
    async record(ask, given) {
      const signal = anySignal(given, stopped.signal);
      const { stream: source, request, response } = await ask(signal);
      hasBegun = true;
      begin({ stream, request, ...(response && { response }) });
      const parts: SdkPart[] = [];
      for await (const part of untilAborted(source, signal)) {
        if (part.type === "error") failed = true;
        if (part.type === "tool-call" && whole) turn.calledBy(String(part["toolCallId"]), whole);
        parts.push(part);
        // The end of a reply that has failed is the SDK's business alone.
        if (!failed && (held.length > 0 || part.type === "finish")) held.push(part);
        else pass(part);
      }
      if (failed) throw new Error("The model's stream has failed.");
      return { parts, ...(response && { response: omit(response, "body") }) };
    },
    end(recorded) {
      whole = recorded;
      recorded.then(
        () => {
          for (const part of held) pass(part);
          if (!stopped.signal.aborted) target?.close();
        },
        (error: unknown) => {
          if (stopped.signal.aborted) return;
          // It has been passed on that it failed, and why.
          if (failed) target?.close();
          else target?.error(error);
          stopped.abort(error);
        },
      );
    },
  };
}
