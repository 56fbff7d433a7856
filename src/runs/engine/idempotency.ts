/** Keys by which the outside world can tell that something is done a second time. */
import { createHash } from "node:crypto";

export class IdempotencyKeys {
  readonly #seed: string;
  readonly #calls = new Map<string, number>();

  /** @param seed different for every step of every session */
  constructor(seed: string) {
    this.#seed = seed;
  }

  /** The key of the effect that is started now: by its tool call's id, and by which of those with that id it is. */
  next(index: number, callId: string | undefined): () => string {
    let name = `#${index}`;
    if (callId !== undefined) {
      const nth = this.#calls.get(callId) ?? 0;
      this.#calls.set(callId, nth + 1);
      name = `=${callId} ${nth}`;
    }
    return () => createHash("sha256").update(`${this.#seed} ${name}`).digest("hex").slice(0, 32);
  }
}
