/**
 * The clock of the server, without a query for each reading: the server is queried from time to time, and this machine counts
 * from there. The server itself checks that nothing happens before its time (`notBefore`).
 */

/** How long to count before the next query, in milliseconds. */
const MAX_AGE = 10_000;
/** An answer that took longer than this, in milliseconds, is too inaccurate to count from. */
const MAX_ROUND_TRIP = 100;
/** If the two clocks of this machine differ by more than this, in milliseconds, it was asleep or its clock was set. */
const MAX_DRIFT = 100;

/** A reading of the server's clock, and of both local clocks at the same moment. */
interface Reading {
  readonly server: number;
  readonly ticks: number;
  readonly clock: number;
}

export class ServerClock {
  readonly #query: () => Promise<number>;
  #reading: Reading | undefined;
  /** Answers to queries that were sent before this time are not used to compute the time. */
  #countsSince = Number.NEGATIVE_INFINITY;

  constructor(query: () => Promise<number>) {
    this.#query = query;
  }

  /**
   * Makes the next call query the server: its time was different from the computed one, or it has written a time that later results
   * must not precede.
   */
  forget(): void {
    this.#reading = undefined;
    this.#countsSince = performance.now();
  }

  async now(): Promise<number> {
    const [ticks, clock] = [performance.now(), Date.now()];
    if (this.#reading) {
      const passed = ticks - this.#reading.ticks;
      const agrees = Math.abs(clock - this.#reading.clock - passed) < MAX_DRIFT;
      if (passed < MAX_AGE && agrees) return Math.floor(this.#reading.server + passed);
    }
    const server = await this.#query();
    this.note(server, ticks);
    return server;
  }

  /**
   * Computes the time from an answer of the server that has just arrived.
   *
   * @param ticks when the server was queried, by `performance.now()`
   */
  note(server: number, ticks: number): void {
    const answered = performance.now();
    if (ticks < this.#countsSince) return;
    // Counted from the arrival of the answer, so the result is never ahead of the server.
    const reading = answered - ticks < MAX_ROUND_TRIP ? { server, ticks: answered, clock: Date.now() } : undefined;
    // A concurrent query may have been answered faster. A slower answer must not move the time back.
    const meanwhile = this.#reading && this.#reading.ticks > ticks ? this.#reading : undefined;
    if (!meanwhile || (reading && lead(reading) > lead(meanwhile))) this.#reading = reading;
  }
}

/** How far the server's clock is ahead of this machine's ticks. */
function lead({ server, ticks }: Reading): number {
  return server - ticks;
}
