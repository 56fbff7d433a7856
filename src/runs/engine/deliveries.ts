/**
 * The order in which a step receives the results of its effects.
 *
 * Results are delivered one at a time, in the order in which they were recorded, and the step runs until it waits before it
 * gets the next one. So a step that is executed again behaves the same, whatever ran in parallel.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { RecordedEffect } from "../journal/index.js";

/** How long a result waits for an earlier recorded one that the step has not requested, in milliseconds. */
const REQUEST_TIMEOUT = 5000;

export interface DeliveryListener {
  /** The step does not request a recorded result, although others wait for it: it is not deterministic. */
  onMissing(effect: RecordedEffect): void;
  /** All available results are delivered, and the step has run until it waits. */
  onQuiet(): void;
}

export class Deliveries {
  /** The recorded results, in the order of their delivery. */
  readonly #recorded: readonly RecordedEffect[];
  /** The deliveries of the recorded results that the step has requested. */
  readonly #requested = new Map<RecordedEffect, () => void>();
  /** The deliveries of new results, which follow the recorded ones. */
  readonly #live: (() => void)[] = [];
  readonly #listener: DeliveryListener;
  #next = 0;
  /** Whether the step runs with the last result, or the deliveries are closed. */
  #isPaused = false;
  #isClosed = false;
  /** The number of results that were delivered to an external loop in this turn of the event loop. */
  #unordered = 0;
  #timeout: NodeJS.Timeout | undefined;
  /** The number of results delivered so far. */
  count = 0;

  constructor(recorded: readonly RecordedEffect[], listener: DeliveryListener) {
    this.#recorded = recorded;
    this.#listener = listener;
  }

  /** The next recorded result that is not delivered yet. */
  get missing(): RecordedEffect | undefined {
    return this.#recorded[this.#next];
  }

  /** Whether all available results are delivered, and the step has run until it waits. */
  get isQuiet(): boolean {
    return !this.#isPaused && this.#live.length === 0 && this.#unordered === 0;
  }

  /** Delivers a recorded result that the step has requested, in its turn. */
  deliverRecorded(effect: RecordedEffect, deliver: () => void): void {
    this.#requested.set(effect, deliver);
    this.#deliverNext();
  }

  /** Delivers a result immediately, because an external loop may get results in any order. */
  deliverUnordered(deliver: () => void): void {
    if (this.#isClosed) return;
    this.count++;
    this.#unordered++;
    // The loop gets a turn of the event loop before it counts as waiting.
    setImmediate(() => {
      this.#unordered--;
      if (this.isQuiet) this.#listener.onQuiet();
    });
    deliver();
  }

  /** Delivers a new result after all recorded ones. */
  deliverLive(deliver: () => void): void {
    this.#live.push(deliver);
    this.#deliverNext();
  }

  /** Resolves when all results that the step has requested are delivered, or when the deliveries are closed. */
  async drained(): Promise<void> {
    const isDone = (): boolean => this.#isClosed || (this.isQuiet && !this.#isRequested);
    while (!isDone()) await nextTurn();
  }

  /** Whether the step has requested the next recorded result. */
  get #isRequested(): boolean {
    return this.missing !== undefined && this.#requested.has(this.missing);
  }

  /** Gives the step a limited time to request the next recorded result. */
  startTimeout(): void {
    const { missing } = this;
    if (missing) this.#timeout ??= setTimeout(() => this.#listener.onMissing(missing), REQUEST_TIMEOUT);
  }

  close(): void {
    clearTimeout(this.#timeout);
    this.#live.length = 0;
    this.#isPaused = true;
    this.#isClosed = true;
  }

  #deliverNext(): void {
    if (this.#isPaused) return;
    const { missing } = this;
    const deliver = missing ? this.#requested.get(missing) : this.#live.shift();
    if (!deliver) {
      if (missing && this.#live.length + this.#requested.size > 0) this.startTimeout();
      return;
    }
    if (missing) {
      this.#next++;
      this.#requested.delete(missing);
    }
    clearTimeout(this.#timeout);
    this.#timeout = undefined;
    this.count++;
    this.#isPaused = true;
    deliver();
    setImmediate(() => {
      this.#isPaused = false;
      this.#deliverNext();
      if (this.isQuiet) this.#listener.onQuiet();
    });
  }
}
