/**
 * Idempotency keys: the function of an effect passes its key to a service, so that an effect that is executed twice counts once. A key is the same in every attempt of a step, and differs after a rewind and on a fork.
 */
import { createHash } from "node:crypto";
import type { JournalRecord } from "../../records/index.js";

/** What the keys of all effects of a step have in common. */
export interface KeySeed {
  readonly sessionId: string;
  /** When the session was created. */
  readonly createdAt: number;
  readonly number: number;
  /** The tape of the branch. */
  readonly tape: number;
  readonly origin: JournalRecord["origin"];
}

/**
 * Computes the key of an effect.
 *
 * @param nth how many earlier effects of the step have the same tool call id
 */
export function idempotencyKey(
  { sessionId, createdAt, number, tape, origin }: KeySeed,
  index: number,
  callId: string | undefined,
  nth: number,
): string {
  // A tool call is known by its id, so that its key is the same when its step is restarted.
  const name = callId === undefined ? `#${index}` : `=${callId} ${nth}`;
  const seed = `${sessionId} ${createdAt} ${number} ${tape} ${origin}`;
  return createHash("sha256").update(`${seed} ${name}`).digest("hex").slice(0, 32);
}
