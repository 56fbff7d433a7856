/** Tells when nothing happens in the stores of a test any more. */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Store } from "../../src/store.js";

/** Turns of the event loop in which something that does not wait for a store begins its next operation, with a wide margin. */
const TURNS = 20;

const PATIENCE = 30_000;

export class StoreActivity {
  #begun = 0;
  #underWay = 0;

  /** The same store, with its operations counted. */
  watch(store: Store): Store {
    return new Proxy(store, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        return (...given: unknown[]): unknown => this.#count(Reflect.apply(value, target, given));
      },
    });
  }

  /**
   * Resolves when everything that can happen has happened: no operation of a store is under way, and none begins. Whatever
   * runs then waits for the test, or for a time.
   */
  async idle(): Promise<void> {
    const end = performance.now() + PATIENCE;
    for (let [quiet, begun] = [0, this.#begun]; quiet < TURNS; quiet++) {
      await nextTurn();
      if (this.#underWay === 0 && this.#begun === begun) continue;
      if (performance.now() > end) throw new Error("Timed out waiting for the stores to become idle.");
      [quiet, begun] = [0, this.#begun];
    }
  }

  #count(returned: unknown): unknown {
    if (!(returned instanceof Promise)) return returned;
    this.#begun++;
    this.#underWay++;
    const landed = (): void => void this.#underWay--;
    returned.then(landed, landed);
    return returned;
  }
}
