const IDLE = Promise.resolve();

/** A lock within one process: one piece of work at a time, in the order of the calls. */
export class Mutex {
  #last: Promise<unknown> | undefined;

  /** Whether no work is in progress or waiting. */
  get isIdle(): boolean {
    return this.#last === undefined;
  }

  /**
   * Runs `work` after all earlier work has succeeded or failed. `work` never starts before this call returns, so
   * callers in the same turn of the event loop can still add to what `work` will do.
   *
   * @returns the result of `work`; it rejects if `work` fails, and later work still runs
   */
  run<Result>(work: () => Promise<Result>): Promise<Result> {
    const result = (this.#last ?? IDLE).then(work);
    const end = (): void => {
      if (this.#last === ended) this.#last = undefined;
    };
    // Only the caller gets a failure. The next work in the queue just waits for the end.
    const ended = result.then(end, end);
    this.#last = ended;
    return result;
  }

  /** Resolves when no work is in progress or waiting, including work that is added meanwhile. */
  async idle(): Promise<void> {
    while (this.#last) await this.#last;
  }
}
