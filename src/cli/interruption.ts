/**
 * Handles Ctrl-C and other signals that end the process. The command immediately stops waiting for the verb and closes the
 * store, unless the verb handles the interruption itself. Work that reports progress stops at its next report.
 */
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
    // Prevents an unhandled rejection if the signal arrives while no call to `race` is pending.
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

  /** Lets the verb handle interruptions: a signal resolves the returned promise and no longer rejects {@link race}. */
  intercept(): Promise<void> {
    return new Promise((resolve) => (this.#onInterrupt = () => resolve()));
  }

  /** Interrupts the verb as a signal would. For prompts, which receive Ctrl-C as a key. */
  interrupt(): never {
    this.#controller.abort();
    throw new InterruptedError();
  }

  /** Stops listening to signals. */
  close(): void {
    this.#stopListening();
  }

  #handleSignal(): void {
    // On a second signal, exit immediately. Every write is atomic, so the store stays consistent.
    if (this.signal.aborted) this.#io.exit(EXIT.interrupted);
    this.#controller.abort();
    this.#onInterrupt(new InterruptedError());
  }
}
