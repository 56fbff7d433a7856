/** Trying again: for errors that say they will pass, with pauses that grow and are never quite the same. */
import { setTimeout as sleep } from "node:timers/promises";
import { SavepointError } from "../../errors.js";
import { type Duration, MAX_TIMER, toMilliseconds } from "../../util/index.js";

export interface RetryOptions {
  /**
   * How often to try in all.
   * @default 3
   */
  readonly attempts?: number;
  /**
   * The first pause.
   * @default "1s"
   */
  readonly delay?: Duration;
  /**
   * By how much each pause is longer than the one before.
   * @default 2
   */
  readonly factor?: number;
  /**
   * The longest pause.
   * @default "30s"
   */
  readonly maxDelay?: Duration;
  /**
   * By how much a pause may be longer or shorter at random, as a part of it.
   * @default 0.1
   */
  readonly jitter?: number;
}

/** Options with everything filled in. */
export interface RetryPolicy {
  readonly attempts: number;
  readonly delay: number;
  readonly factor: number;
  readonly maxDelay: number;
  readonly jitter: number;
}

export function parseRetryOptions(options: RetryOptions = {}): RetryPolicy {
  const { attempts = 3, delay = 1000, factor = 2, maxDelay = 30_000, jitter = 0.1 } = options;
  if (!Number.isSafeInteger(attempts) || attempts < 1) {
    throw new SavepointError("INVALID_ARGUMENT", `retry.attempts is ${attempts}. Give a whole number from 1 on.`);
  }
  for (const [name, value] of Object.entries({ factor, jitter })) {
    if (Number.isFinite(value) && value >= 0) continue;
    throw new SavepointError("INVALID_ARGUMENT", `retry.${name} is ${String(value)}. Give a number from 0 on.`);
  }
  return {
    attempts,
    delay: toMilliseconds(delay, "retry.delay"),
    factor,
    maxDelay: toMilliseconds(maxDelay, "retry.maxDelay"),
    jitter,
  };
}

/** The pause after the `failures`-th failure, in milliseconds. */
export function retryDelay(
  failures: number,
  { delay, factor, maxDelay, jitter }: RetryPolicy,
  error?: unknown,
): number {
  const wanted = retryAfterOf(error);
  const pause = Math.min(maxDelay, Math.max(wanted ?? 0, delay * factor ** (failures - 1)));
  return Math.max(0, pause * (1 + jitter * (2 * Math.random() - 1)));
}

/** Waits, or stops waiting when the signal says so. */
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
 * Does an error say that it will pass? It has `transient`, `retryable` or `isRetryable`; or a status or a code of the
 * network that means so. Nothing is read out of its message.
 */
export function isTransient(error: unknown): boolean {
  try {
    return saysItWillPass(error, 0);
  } catch {
    // What cannot be looked at says nothing.
    return false;
  }
}

function saysItWillPass(error: unknown, depth: number): boolean {
  if (typeof error !== "object" || error === null || depth > MAX_CAUSES) return false;
  const { transient, retryable, isRetryable, status, statusCode, code, cause } = error as Record<string, unknown>;
  for (const said of [transient, retryable, isRetryable]) if (typeof said === "boolean") return said;
  const http = status ?? statusCode;
  if (typeof http === "number") return TRANSIENT_STATUS.has(http);
  if (typeof code === "string" && TRANSIENT_CODES.has(code)) return true;
  return cause !== undefined && saysItWillPass(cause, depth + 1);
}

/** How long the other side asked to be left alone, in milliseconds. */
function retryAfterOf(error: unknown): number | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  try {
    const { retryAfter } = error as Record<string, unknown>;
    return typeof retryAfter === "number" && retryAfter >= 0 ? retryAfter : undefined;
  } catch {
    // What cannot be looked at says nothing.
    return undefined;
  }
}
