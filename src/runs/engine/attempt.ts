/** Runs the function behind an effect: with a time limit, again for errors that will pass, and part by part if it streams. */
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

/** What a function returned, or threw. */
export type AttemptResult = { readonly value: unknown } | { readonly error: unknown };

export interface AttemptHost {
  readonly signal: AbortSignal;
  /** The effect, for messages. */
  describe(): string;
  onRetry(attempt: number, error: unknown, delay: number): void;
  /** Gets the parts of a reply that comes in parts; without it, what comes is a value like any other. */
  readonly onPart: ((part: unknown) => void) | undefined;
}

export async function attemptEffect(
  run: (context: EffectContext) => unknown,
  key: () => string,
  options: { readonly timeout: Duration | undefined; readonly retry: RetryOptions | undefined },
  host: AttemptHost,
): Promise<AttemptResult> {
  const retry = parseRetryOptions(options.retry ?? { attempts: 1 });
  const timeout = options.timeout === undefined ? undefined : toMilliseconds(options.timeout, "timeout");
  for (let attempt = 1; ; attempt++) {
    try {
      return { value: await runOnce(run, key, attempt, timeout, host) };
    } catch (error) {
      if (attempt >= retry.attempts || !isTransient(error) || host.signal.aborted) return { error };
      const delay = retryDelay(attempt, retry, error);
      host.onRetry(attempt, error, delay);
      await pause(delay, host.signal);
      if (host.signal.aborted) return { error };
    }
  }
}

async function runOnce(
  run: (context: EffectContext) => unknown,
  key: () => string,
  attempt: number,
  timeout: number | undefined,
  host: AttemptHost,
): Promise<unknown> {
  const work = async (signal: AbortSignal): Promise<unknown> => {
    const value = await run(new AttemptContext(key, attempt, signal));
    return host.onPart && isStream(value) ? join(value, host.onPart) : value;
  };
  if (timeout === undefined) return work(host.signal);
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
    return await Promise.race([work(AbortSignal.any([host.signal, limit.signal])), expired]);
  } finally {
    clearTimeout(timer);
  }
}

/** Its key is made only if somebody looks at it. */
class AttemptContext implements EffectContext {
  readonly #key: () => string;

  constructor(
    key: () => string,
    readonly attempt: number,
    readonly signal: AbortSignal,
  ) {
    this.#key = key;
  }

  get idempotencyKey(): string {
    return this.#key();
  }
}

function isStream(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === "object" && value !== null && Symbol.asyncIterator in value;
}

/** Reads a stream to its end. What a generator returns is the reply; else the parts are, as one text if they are texts. */
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
