/** Retries of writes to a session that other processes may also write to. */
import { setTimeout as delay } from "node:timers/promises";
import { isSavepointError } from "../../index.js";

/** The maximum number of attempts of one write. */
const MAX_ATTEMPTS = 1000;

/** Whether a write has failed because another process has moved the head of the session, or has deleted the session. */
export function isMoved(error: unknown): boolean {
  return isSavepointError(error, "CONFLICT") || isSavepointError(error, "SESSION_DELETED");
}

/**
 * Repeats a write while another process moves the head.
 *
 * @param write saves on top of the known head, or reads the head first
 * @param forget called after every failed attempt, because the known head may be outdated. If it throws, the write is not retried
 */
export async function retryWrite<Result>(
  write: () => Promise<Result>,
  forget: (error: unknown) => void,
): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await write();
    } catch (error) {
      forget(error);
      if (!isMoved(error) || attempt === MAX_ATTEMPTS) throw error;
      // Let the other writers continue.
      if (attempt > 1) await delay(Math.random() * Math.min(attempt, 20));
    }
  }
}
