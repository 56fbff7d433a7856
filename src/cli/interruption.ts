/** Ctrl-C and other signals that end the process: the verb stops where it can, and the store is closed. */
import { InterruptedError } from "./errors.js";
import { EXIT } from "./exit-codes.js";
import type { CliIo } from "./io.js";

export class Interruption {
  readonly #controller = new AbortController();
  readonly #interrupted: Promise<never>;
  readonly #io: CliIo;
  readonly #stopListening: () => void;
  #onInterrupt: (error: InterruptedError) => void = () => {};

  constructor(io: CliIo) {
    this.#io = io;
    this.#interrupted = new Promise((_, reject) => (this.#onInterrupt = reject));
    // An interruption is no unhandled rejection while nothing races against it.
    this.#interrupted.catch(() => {});
    this.#stopListening = io.onSignal(() => this.#handleSignal());
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Settles like `work`. Rejects with {@link InterruptedError} if the interruption comes first. */
  async race<T>(work: Promise<T>): Promise<T> {
    return Promise.race([work, this.#interrupted]);
  }

  throwIfInterrupted(): void {
    if (this.signal.aborted) throw new InterruptedError();
  }

  /** From now on an interruption resolves this promise and no longer rejects {@link race}: the verb ends itself. */
  intercept(): Promise<void> {
    return new Promise((resolve) => (this.#onInterrupt = () => resolve()));
  }

  /** Interrupts the verb from within. */
  interrupt(): never {
    this.#controller.abort();
    throw new InterruptedError();
  }

  /** Stops listening to signals. */
  close(): void {
    this.#stopListening();
  }

  #handleSignal(): void {
    // A second signal does not wait. Every write is atomic, so nothing is lost.
    if (this.signal.aborted) this.#io.exit(EXIT.interrupted);
    this.#controller.abort();
    this.#onInterrupt(new InterruptedError());
  }
}
