/** Polls something: often while it changes, rarely while it does not, and only for a limited share of the time. */

/** The least time between two polls, as a multiple of the duration of the first one. */
const REST = 20;
/** How much longer the pause becomes with each poll that has found no change. */
const SLOWER = 1.3;

export interface Pace {
  /** The pause after a change, in milliseconds. */
  readonly fast: number;
  /** The longest pause without changes, in milliseconds. */
  readonly slow: number;
}

export class Poller {
  readonly #poll: () => Promise<boolean>;
  readonly #onError: (error: unknown) => void;
  readonly #pace: Pace;
  #timer: NodeJS.Timeout | undefined;
  #polling: Promise<void> | undefined;
  #pause: number;
  #isStopped = false;
  #isPoked = false;

  /**
   * Starts to poll at once.
   *
   * @param poll resolves with whether something has changed
   * @param onError called when a poll has failed; polling continues slowly
   */
  constructor(pace: Pace, poll: () => Promise<boolean>, onError: (error: unknown) => void) {
    this.#pace = pace;
    this.#poll = poll;
    this.#onError = onError;
    this.#pause = pace.fast;
    this.#run();
  }

  /** The pause before the next poll, in milliseconds: longer if a poll takes long. */
  get pause(): number {
    return this.#pause;
  }

  /** Polls as soon as possible, because something is known to have changed. */
  poke(): void {
    this.#pause = this.#pace.fast;
    if (this.#polling) this.#isPoked = true;
    else this.#run();
  }

  /** Resolves when the poll in progress has ended. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#polling;
  }

  #run(): void {
    if (this.#isStopped || this.#polling) return;
    clearTimeout(this.#timer);
    this.#polling = this.#pollOnce().finally(() => (this.#polling = undefined));
  }

  async #pollOnce(): Promise<void> {
    const startedAt = performance.now();
    try {
      const { fast, slow } = this.#pace;
      this.#pause = (await this.#poll()) ? fast : Math.min(slow, this.#pause * SLOWER);
    } catch (error) {
      this.#pause = this.#pace.slow;
      if (!this.#isStopped) this.#onError(error);
    }
    if (this.#isStopped) return;
    const rest = this.#isPoked ? 0 : Math.max(this.#pause, REST * (performance.now() - startedAt));
    this.#isPoked = false;
    this.#timer = setTimeout(() => this.#run(), rest).unref();
  }
}
