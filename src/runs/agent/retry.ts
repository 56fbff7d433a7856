/** Retries of transient errors, with exponential backoff and jitter. */
import { setTimeout as sleep } from "node:timers/promises";
import { type Duration, MAX_TIMER, toMilliseconds, invalidArgument } from "../../util/index.js";

/** How often and when a failed operation is retried. */
export interface RetryOptions {
  /**
   * The number of attempts, including the first.
   * @default 3
   */
  readonly attempts?: number;
  /**
   * The delay before the second attempt.
   * @default "1s"
   */
  readonly delay?: Duration;
  /**
   * The factor by which the delay grows with each attempt.
   * @default 2
   */
  readonly factor?: number;
  /**
   * The longest delay.
   * @default "30s"
   */
  readonly maxDelay?: Duration;
  /**
   * The largest random deviation of a delay, as a fraction of it.
   * @default 0.1
   */
  readonly jitter?: number;
}

/** Validated retry options, with all defaults filled in and durations in milliseconds. */
export type RetryPolicy = { readonly [Option in keyof RetryOptions]-?: number };

export function parseRetryOptions(options: RetryOptions = {}): RetryPolicy {
  const { attempts = 3, delay = 1000, factor = 2, maxDelay = 30_000, jitter = 0.1 } = options;
  if (!Number.isSafeInteger(attempts) || attempts < 1) {
    throw invalidArgument(`retry.attempts must be a positive integer, got ${attempts}.`);
  }
  for (const [name, value] of Object.entries({ factor, jitter })) {
    if (Number.isFinite(value) && value >= 0) continue;
    throw invalidArgument(`retry.${name} must be a non-negative number, got ${String(value)}.`);
  }
  return {
    attempts,
    delay: toMilliseconds(delay, "retry.delay"),
    factor,
    maxDelay: toMilliseconds(maxDelay, "retry.maxDelay"),
    jitter,
  };
}

/**
 * The delay after the `failures`-th failure, in milliseconds. An error with a `retryAfter` property (milliseconds) lengthens
 * it, up to the longest delay of the policy.
 */
export function retryDelay(
  failures: number,
  { delay, factor, maxDelay, jitter }: RetryPolicy,
  error?: unknown,
): number {
  const base = Math.min(maxDelay, Math.max(retryAfterOf(error) ?? 0, delay * factor ** (failures - 1)));
  return Math.max(0, base * (1 + jitter * (2 * Math.random() - 1)));
}

/** Resolves after a delay, or when the signal is aborted. */
export async function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  try {
    await sleep(Math.min(milliseconds, MAX_TIMER), undefined, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

const MAX_CAUSES = 8;
const TRANSIENT_CODES = new Set([
  "EAI_AGAIN",
  "ECONNABORTED",
  "ECONNREFUSED",
  "ECONNRESET",
  "EHOSTUNREACH",
  "ENETDOWN",
  "ENETRESET",
  "ENETUNREACH",
  "EPIPE",
  "ETIMEDOUT",
  "UND_ERR_BODY_TIMEOUT",
  "UND_ERR_CONNECT_TIMEOUT",
  "UND_ERR_HEADERS_TIMEOUT",
  "UND_ERR_SOCKET",
]);
const TRANSIENT_STATUS = new Set([408, 409, 425, 429, 500, 502, 503, 504, 529]);

/**
 * Returns whether an error, or one of its causes, is marked as transient: by a boolean property `transient`, `retryable` or
 * `isRetryable`, by an HTTP status such as 429 or 503, or by a network error code. Its message is not inspected.
 */
export function isTransient(error: unknown): boolean {
  try {
    return isMarkedTransient(error, 0);
  } catch {
    // A getter of the error has thrown.
    return false;
  }
}

function isMarkedTransient(error: unknown, depth: number): boolean {
  if (typeof error !== "object" || error === null || depth > MAX_CAUSES) return false;
  const { transient, retryable, isRetryable, status, statusCode, code, cause } = error as Record<string, unknown>;
  for (const mark of [transient, retryable, isRetryable]) if (typeof mark === "boolean") return mark;
  const http = status ?? statusCode;
  if (typeof http === "number") return TRANSIENT_STATUS.has(http);
  if (typeof code === "string" && TRANSIENT_CODES.has(code)) return true;
  return cause !== undefined && isMarkedTransient(cause, depth + 1);
}

/** The delay that the remote side asked for, in milliseconds. */
function retryAfterOf(error: unknown): number | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  try {
    const { retryAfter } = error as Record<string, unknown>;
    return typeof retryAfter === "number" && retryAfter >= 0 ? retryAfter : undefined;
  } catch {
    // A getter of the error has thrown.
    return undefined;
  }
}
