import { isSavepointError, type SavepointError } from "../errors.js";

/** More conflicts than this in a row are not bad luck: something writes all the time, or the check can never hold. */
const MAX_ATTEMPTS = 1000;

/** How `retryOnConflict` retries. */
export interface RetryOnConflictOptions {
  /** @default 1000 */
  readonly maxAttempts?: number;
  /** Whether another attempt is useful after this conflict. @default always */
  readonly isRetryable?: (conflict: SavepointError<"CONFLICT">) => boolean;
}

/**
 * Repeats a read-plan-commit cycle while its commit fails with `CONFLICT`, because another writer changed what was read.
 *
 * @param attempt reads, plans and commits; called with the number of the attempt, from 1
 * @returns the result of the first attempt that succeeds; rejects with any other error, and with the last conflict when the
 *   attempts are used up
 */
export async function retryOnConflict<Result>(
  attempt: (number: number) => Promise<Result>,
  { maxAttempts = MAX_ATTEMPTS, isRetryable }: RetryOnConflictOptions = {},
): Promise<Result> {
  for (let number = 1; ; number++) {
    try {
      return await attempt(number);
    } catch (error) {
      if (!isSavepointError(error, "CONFLICT") || number >= maxAttempts || isRetryable?.(error) === false) throw error;
    }
  }
}

/** Resolves with the result of a commit; with `undefined` if it fails with `CONFLICT`. */
export async function unlessConflict<Result>(committed: Promise<Result>): Promise<Result | undefined> {
  try {
    return await committed;
  } catch (error) {
    if (isSavepointError(error, "CONFLICT")) return undefined;
    throw error;
  }
}
