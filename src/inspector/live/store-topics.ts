/** The queue with its workers, and the store as a whole, as topics. */
import type { LiveEvents } from "../api.js";
import type { Cached } from "../data/cached.js";
import type { Damage } from "../data/damage.js";
import type { Work } from "../data/work.js";
import { omitUndefined } from "../data/views.js";
import type { Stats } from "../../index.js";
import type { Emit, Topic } from "./topic.js";

/** Entries of the queue that are compared with those of the last poll. */
const MAX_COMPARED = 5000;
/** How often the store is counted, in milliseconds. */
const STATS_INTERVAL = 10_000;

export class QueueTopic implements Topic {
  readonly name = "queue";
  readonly event = "queue";
  readonly pace = { fast: 300, slow: 2000 };
  readonly #work: Work;
  #last: { readonly event: LiveEvents["queue"]; readonly fingerprint: string } | undefined;

  constructor(work: Work) {
    this.#work = work;
  }

  current(): LiveEvents["queue"] | undefined {
    return this.#last?.event;
  }

  async poll(emit: Emit): Promise<boolean> {
    const { entries, states } = await this.#work.queue.get();
    const workers = await this.#work.workers.get();
    const last = this.#last;
    // The ends of leases change all the time.
    const shown = workers.map(({ owner, alive, runs }) => [owner, alive, runs]);
    const queue = entries
      .slice(0, MAX_COMPARED)
      .map(({ sessionId, branch, state, readyAt, questions }) => [sessionId, branch, state, readyAt, questions.length]);
    const event = { states, workers: workers.length };
    this.#last = { event, fingerprint: JSON.stringify([event, shown, queue]) };
    if (last?.fingerprint === this.#last.fingerprint) return false;
    emit(event);
    return true;
  }
}

export class StoreTopic implements Topic {
  readonly name = "store";
  readonly event = "store";
  readonly pace = { fast: 250, slow: 1000 };
  readonly #damage: Damage;
  readonly #stats: Cached<{ readonly value: Stats; readonly at: number }>;
  #countedAt = 0;
  #value: Stats | undefined;
  #fingerprint: string | undefined;

  constructor(damage: Damage, stats: Cached<{ readonly value: Stats; readonly at: number }>) {
    this.#damage = damage;
    this.#stats = stats;
  }

  current(): LiveEvents["store"] | undefined {
    return this.#fingerprint === undefined
      ? undefined
      : omitUndefined({ damage: this.#damage.view(), stats: this.#value });
  }

  async poll(emit: Emit): Promise<boolean> {
    if (performance.now() - this.#countedAt > STATS_INTERVAL || this.#value === undefined) {
      this.#value = (await this.#stats.get()).value;
      this.#countedAt = performance.now();
    }
    const before = this.#fingerprint;
    this.#fingerprint = JSON.stringify([this.#damage.version, this.#value]);
    if (before === this.#fingerprint) return false;
    emit(this.current() ?? {});
    return true;
  }
}
