/** Ctrl-C, or being told to end: the verb stops where it can, and the store is closed. */
import { Interrupted } from "./failure.js";

export class Interruption {
  readonly #controller = new AbortController();
  readonly #interrupted: Promise<never>;
  #reject: ((reason: Interrupted) => void) | undefined;

  constructor() {
    this.#interrupted = new Promise((_, reject) => (this.#reject = reject));
    // Whoever waits is told; nobody needs to.
    this.#interrupted.catch(() => {});
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => this.#signalled());
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The work's result; or the interruption, where that comes first. */
  async race<T>(work: Promise<T>): Promise<T> {
    return Promise.race([work, this.#interrupted]);
  }

  /** @throws Interrupted if it was */
  check(): void {
    if (this.signal.aborted) throw new Interrupted();
  }

  /** From now on the verb ends by itself when it is told to. Resolves when that is. */
  takeOver(): Promise<void> {
    return new Promise((resolve) => (this.#reject = () => resolve()));
  }

  /** Interrupts it from within. */
  interrupt(): never {
    this.#controller.abort();
    throw new Interrupted();
  }

  #signalled(): void {
    // Whoever asks twice does not want to wait. Every write is whole or not there, so nothing is lost.
    if (this.signal.aborted) process.exit(130);
    this.#controller.abort();
    this.#reject?.(new Interrupted());
  }
}
