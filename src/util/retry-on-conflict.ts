import { isSavepointError, SavepointError } from "../errors.js";

/** More conflicts than this in a row are not bad luck: something writes all the time, or the check can never hold. */
const MAX_ATTEMPTS = 1000;

/** How `retryOnConflict` retries. */
interface RetryOptions {
  /** @default 1000 */
  readonly maxAttempts?: number;
  /** Whether another attempt is useful after this conflict; if not, the conflict is thrown. @default always */
  readonly isRetryable?: (conflict: SavepointError<"CONFLICT">, number: number) => boolean;
}

/**
 * Repeats a read-plan-commit cycle while its commit fails with `CONFLICT`, because another writer changed what was read.
 *
 * @param attempt reads, plans and commits; called with the number of the attempt, from 1
 * @returns the result of the first attempt that succeeds; rejects with any other error
 * @throws BUSY if all attempts conflict
 */
export async function retryOnConflict<Result>(
  attempt: (number: number) => Promise<Result>,
  { maxAttempts = MAX_ATTEMPTS, isRetryable }: RetryOptions = {},
): Promise<Result> {
  for (let number = 1; ; number++) {
    try {
      return await attempt(number);
    } catch (error) {
      if (!isSavepointError(error, "CONFLICT") || isRetryable?.(error, number) === false) throw error;
      if (number >= maxAttempts) throw keepsConflicting(number, error);
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

function keepsConflicting(attempts: number, cause: SavepointError): SavepointError<"BUSY"> {
  return new SavepointError(
    "BUSY",
    `Another process keeps writing what this call changes: all of ${attempts} attempts conflicted with it. Nothing was changed. Try again.`,
    { cause, details: cause.details },
  );
}
