/** A lock within one process: one piece of work at a time, in the order of the calls. */
export class Mutex {
  #last: Promise<unknown> | undefined;

  /** Is no work in progress or waiting? */
  get isIdle(): boolean {
    return this.#last === undefined;
  }

  /**
   * Runs `work` after all earlier work has ended, whether that succeeded or failed. If the mutex is idle, `work` starts
   * before this call returns.
   *
   * @returns the result of `work`; it rejects if `work` fails, and later work still runs
   */
  run<Result>(work: () => Promise<Result>): Promise<Result> {
    const result = this.#last ? this.#last.then(work) : startNow(work);
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

/** A synchronous throw becomes a rejection, as it does for work that had to wait. */
function startNow<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return work();
  } catch (error) {
    return Promise.reject(error as Error);
  }
}
