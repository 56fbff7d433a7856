/** Calls the function of an effect: with a timeout, with retries of transient errors, and with streamed replies joined. */
import { SavepointError } from "../../errors.js";
import { type Duration, MAX_TIMER, toMilliseconds } from "../../util/index.js";
import {
  type EffectContext,
  isTransient,
  pause,
  retryDelay,
  type RetryOptions,
  parseRetryOptions,
} from "../agent/index.js";

/** The value that a function returned, or the error that it threw. */
export type AttemptResult = { readonly value: unknown } | { readonly error: unknown };

interface AttemptHost {
  readonly signal: AbortSignal;
  /** Describes the effect for error messages. */
  describe(): string;
  onRetry(attempt: number, attempts: number, error: unknown, delay: number): void;
  /** Called with the parts of a streamed reply, and by the function itself. Without it, a stream is a value like any other. */
  readonly onPart: ((part: unknown) => void) | undefined;
}

/** How often the function of an effect was called, and for how many milliseconds, including the pauses between the calls. */
export interface AttemptCount {
  readonly attempts: number;
  readonly took: number;
}

/** Calls the function of an effect once. */
type Call = (attempt: number, signal: AbortSignal) => Promise<unknown>;

/** Calls a function until it succeeds, fails with a permanent error, or its attempts are used up. Never rejects. */
export async function attemptEffect(
  run: (context: EffectContext) => unknown,
  key: () => string,
  options: { readonly timeout: Duration | undefined; readonly retry: RetryOptions | undefined },
  host: AttemptHost,
): Promise<AttemptResult & AttemptCount> {
  const startedAt = performance.now();
  const count = (attempts: number): AttemptCount => ({ attempts, took: performance.now() - startedAt });
  const { onPart } = host;
  const call: Call = async (attempt, signal) => {
    const value = await run({
      // Computed only when it is read.
      get idempotencyKey() {
        return key();
      },
      signal,
      attempt,
      ...(onPart && { emit: onPart }),
    });
    return onPart && isStream(value) ? await join(value, onPart) : value;
  };
  const retry = parseRetryOptions(options.retry ?? { attempts: 1 });
  const timeout = options.timeout === undefined ? undefined : toMilliseconds(options.timeout, "timeout");
  for (let attempt = 1; ; attempt++) {
    try {
      const value = timeout === undefined ? call(attempt, host.signal) : callWithTimeout(call, attempt, timeout, host);
      return { value: await value, ...count(attempt) };
    } catch (error) {
      if (attempt >= retry.attempts || !isTransient(error) || host.signal.aborted) return { error, ...count(attempt) };
      const delay = retryDelay(attempt, retry, error);
      host.onRetry(attempt, retry.attempts, error, delay);
      await pause(delay, host.signal);
      if (host.signal.aborted) return { error, ...count(attempt) };
    }
  }
}

async function callWithTimeout(call: Call, attempt: number, timeout: number, host: AttemptHost): Promise<unknown> {
  const limit = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const expired = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => {
        const error = new SavepointError("TIMEOUT", `${host.describe()} took longer than ${timeout} ms.`);
        reject(error);
        limit.abort(error);
      },
      Math.min(timeout, MAX_TIMER),
    );
  });
  try {
    return await Promise.race([call(attempt, AbortSignal.any([host.signal, limit.signal])), expired]);
  } finally {
    clearTimeout(timer);
  }
}

function isStream(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === "object" && value !== null && Symbol.asyncIterator in value;
}

/** Reads a stream to its end. The reply is the value that a generator returns; otherwise the parts, joined if all are strings. */
async function join(stream: AsyncIterable<unknown>, onPart: (part: unknown) => void): Promise<unknown> {
  const parts: unknown[] = [];
  const iterator = stream[Symbol.asyncIterator]();
  for (;;) {
    const { done, value } = await iterator.next();
    if (done) {
      if (value !== undefined) return value;
      return parts.length > 0 && parts.every((part) => typeof part === "string") ? parts.join("") : parts;
    }
    parts.push(value);
    onPart(value);
  }
}
