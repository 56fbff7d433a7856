/** Ctrl-C, or another request to end: the verb stops where it can, and the store is closed. */
import { EXIT } from "./exit-codes.js";
import { InterruptedError } from "./errors.js";
import type { CliIo } from "./io.js";

export class Interruption {
  readonly #controller = new AbortController();
  readonly #interrupted: Promise<never>;
  readonly #io: CliIo;
  readonly #stopListening: () => void;
  #reject: ((reason: InterruptedError) => void) | undefined;

  constructor(io: CliIo) {
    this.#io = io;
    this.#interrupted = new Promise((_, reject) => (this.#reject = reject));
    // Whoever waits is told; nobody needs to.
    this.#interrupted.catch(() => {});
    this.#stopListening = io.onSignal(() => this.#signalled());
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The work's result; or the interruption, where that comes first. */
  async race<T>(work: Promise<T>): Promise<T> {
    return Promise.race([work, this.#interrupted]);
  }

  /** @throws Interrupted if it was */
  throwIfInterrupted(): void {
    if (this.signal.aborted) throw new InterruptedError();
  }

  /** From now on the verb ends by itself when it is told to. Resolves when that is. */
  intercept(): Promise<void> {
    return new Promise((resolve) => (this.#reject = () => resolve()));
  }

  /** Interrupts it from within. */
  interrupt(): never {
    this.#controller.abort();
    throw new InterruptedError();
  }

  /** Stops listening to signals. */
  close(): void {
    this.#stopListening();
  }

  #signalled(): void {
    // Whoever asks twice does not want to wait. Every write is whole or not there, so nothing is lost.
    if (this.signal.aborted) this.#io.exit(EXIT.interrupted);
    this.#controller.abort();
    this.#reject?.(new InterruptedError());
  }
}
