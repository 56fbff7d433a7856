const IDLE = Promise.resolve();

/** A lock within one process: one piece of work at a time, in the order of the calls. */
export class Mutex {
  #last: Promise<unknown> | undefined;

  /** Is no work in progress or waiting? */
  get isIdle(): boolean {
    return this.#last === undefined;
  }

  /**
   * Runs `work` after all earlier work has ended, whether that succeeded or failed. `work` never starts before this call
   * returns: callers of the same turn of the event loop can still add to what it will do.
   *
   * @returns the result of `work`; it rejects if `work` fails, and later work still runs
   */
  run<Result>(work: () => Promise<Result>): Promise<Result> {
    const result = (this.#last ?? IDLE).then(work);
    const end = (): void => {
      if (this.#last === ended) this.#last = undefined;
    };
    // A failure is the caller's; the next in the queue only waits.
    const ended = result.then(end, end);
    this.#last = ended;
    return result;
  }

  /** Resolves when no work is in progress or waiting, including work that is added meanwhile. */
  async idle(): Promise<void> {
    while (this.#last) await this.#last;
  }
}
