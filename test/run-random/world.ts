/** The outside world of a random agent: which effects happened, and how processes die. */
import { setImmediate as turn } from "node:timers/promises";
import type { Verdict } from "../../src/index.js";
import type { Commit, CommitResult, Store } from "../../src/store/contract/contract.js";

/** Where a process dies or falls asleep: at its n-th commit, before or after it is applied, or in its n-th effect. */
export interface Blow {
  readonly at: "before commit" | "after commit" | "before effect" | "after effect";
  readonly number: number;
  /** Whether it wakes up again when another process has taken over. */
  readonly wakes: boolean;
}

export class World {
  /** How often each thing was done, and under which keys. */
  readonly done = new Map<string, string[]>();

  /** Executes an effect. It takes a while, and the process may die before its end. */
  async happen(victim: Victim, name: string, value: string, key = ""): Promise<string> {
    await victim.passes("before effect");
    this.done.set(name, [...(this.done.get(name) ?? []), key]);
    for (let turns = name.length % 3; turns > 0; turns--) await turn();
    await victim.passes("after effect");
    return value;
  }

  /** Whether the effect has happened, and its result. */
  async verdictOn(name: string): Promise<Verdict<string>> {
    const [, id] = name.split(":");
    return this.done.has(name) ? { happened: true, result: `result ${id}` } : { happened: false };
  }
}

/** A process that may die. After that none of its calls returns. */
export class Victim {
  readonly #blow: Blow | undefined;
  readonly #counts = new Map<string, number>();
  #wake: () => void = () => {};
  #asleep: Promise<void> | undefined;
  readonly #fell: () => void;
  /** Resolves when it has died or fallen asleep. */
  readonly fallen: Promise<void>;

  constructor(blow: Blow | undefined) {
    this.#blow = blow;
    let fell = (): void => {};
    this.fallen = new Promise((resolve) => (fell = resolve));
    this.#fell = fell;
  }

  /** Passes a point, if it lives. */
  async passes(point: Blow["at"]): Promise<void> {
    if (this.#asleep) await this.#asleep;
    const count = (this.#counts.get(point) ?? 0) + 1;
    this.#counts.set(point, count);
    if (this.#blow?.at !== point || this.#blow.number !== count) return;
    this.#asleep = new Promise((resolve) => (this.#wake = resolve));
    this.#fell();
    await this.#asleep;
  }

  /** Wakes up, if it only slept; `false` if it is dead. */
  wake(): boolean {
    // A function that was stopped in the middle continues when its process wakes up: nothing can prevent that.
    const wakes = this.#blow?.wakes === true && this.#blow.at !== "before effect";
    if (wakes) this.#wake();
    return wakes;
  }

  /** The store as this process sees it. */
  storeOf(store: Store): Store {
    const commit = async (given: Commit): Promise<CommitResult> => {
      await this.passes("before commit");
      const result = await store.commit(given);
      await this.passes("after commit");
      return result;
    };
    return new Proxy(store, {
      get: (target, name) => {
        if (name === "commit") return commit;
        if (name === "close") return async () => {};
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        // A process that is dead or asleep does not read either.
        return async (...args: unknown[]) => {
          await this.#asleep;
          return (value as (...all: unknown[]) => unknown).apply(target, args);
        };
      },
    });
  }
}
