/**
 * The server's clock, without asking for it each time: it is asked once in a while, and this machine counts on from there.
 * What must not happen before its time is checked by the server itself.
 */

/** For how long it is counted on, in milliseconds. */
const ASK_EVERY = 10_000;
/** An answer that took longer says too little of what time it is now. */
const LONG_TRIP = 100;
/** Where this machine's own clocks disagree by more than this, it was asleep, or one of them was set. */
const DISAGREE = 100;

interface Known {
  readonly server: number;
  readonly ticks: number;
  readonly clock: number;
}

export class ServerClock {
  readonly #ask: () => Promise<number>;
  #known: Known | undefined;

  constructor(ask: () => Promise<number>) {
    this.#ask = ask;
  }

  /** The server has said that it is another time than was believed. */
  forget(): void {
    this.#known = undefined;
  }

  async now(): Promise<number> {
    const [ticks, clock] = [performance.now(), Date.now()];
    if (this.#known) {
      const passed = ticks - this.#known.ticks;
      const agrees = Math.abs(clock - this.#known.clock - passed) < DISAGREE;
      if (passed < ASK_EVERY && agrees) return Math.floor(this.#known.server + passed);
    }
    const server = await this.#ask();
    const answered = performance.now();
    // Counted from when the answer came: it is never said to be later than it is.
    const learned = answered - ticks < LONG_TRIP ? { server, ticks: answered, clock: Date.now() } : undefined;
    // Who asked at the same time may have been answered sooner. By a slower answer it would be earlier than it was.
    const meanwhile = this.#known && this.#known.ticks > ticks ? this.#known : undefined;
    if (!meanwhile || (learned && lead(learned) > lead(meanwhile))) this.#known = learned;
    return server;
  }
}

/** By how much the server's clock is ahead of this machine's ticks. */
function lead({ server, ticks }: Known): number {
  return server - ticks;
}
