/** The request to stop a run: aborts its effects and pauses, and keeps the first error as the reason. */
import { setMaxListeners } from "node:events";
import { isSavepointError } from "../../errors.js";

export class RunStop {
  readonly #effects = new AbortController();
  readonly #pauses = new AbortController();
  #error: Error | undefined;
  #resolve: () => void = () => {};
  /** Resolves when the run is to stop. */
  readonly requested = new Promise<void>((resolve) => (this.#resolve = resolve));

  constructor() {
    // Effects get this signal itself, and each may add a listener that it never removes. Node would warn about the eleventh.
    setMaxListeners(0, this.#effects.signal);
  }

  /** The reason to stop; `undefined` while the run may continue. */
  get error(): Error | undefined {
    return this.#error;
  }

  /** Aborted when effects in progress are to stop. A clean shutdown lets them end. */
  get effectSignal(): AbortSignal {
    return this.#effects.signal;
  }

  /** Aborted when the run stops for any reason. */
  get pauseSignal(): AbortSignal {
    return this.#pauses.signal;
  }

  request(error: Error): void {
    this.#error ??= error;
    this.#pauses.abort();
    this.#resolve();
    if (!isSavepointError(error, "CLOSED")) this.#effects.abort(error);
  }

  /** Aborts the effects of a run that has ended. */
  abortEffects(error: Error): void {
    if (!this.#effects.signal.aborted) this.#effects.abort(error);
  }
}
