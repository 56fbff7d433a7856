/** What the specs are written with: tests that get a fresh store and leave nothing behind. */
import type { Store } from "../store/index.js";
import { rejectsWith } from "./assertions.js";
import type { CrashHarness, Damage, DamageTarget, StoreHarness, TestRunner } from "./harness.js";

/** The store of one test. */
export interface TestStore {
  readonly store: Store;
  readonly location: string;
  /** A further handle on the same data, which is closed after the test. For durable stores only. */
  readonly reopen: () => Promise<Store>;
}

/** The store of a test, which can be damaged. */
export interface DamageableTestStore extends TestStore {
  readonly damage: (target: DamageTarget, how: Damage) => Promise<void>;
}

export class Suite {
  readonly #harness: StoreHarness;
  readonly #runner: TestRunner;

  constructor(harness: StoreHarness, runner: TestRunner) {
    this.#harness = harness;
    this.#runner = runner;
  }

  get crash(): CrashHarness | undefined {
    return this.#harness.crash;
  }

  get isReopenable(): boolean {
    return this.#harness.reopen !== undefined;
  }

  get isDamageable(): boolean {
    return this.#harness.damage !== undefined;
  }

  describe(name: string, body: () => void): void {
    this.#runner.describe(name, body);
  }

  test(name: string, body: (fresh: TestStore) => Promise<void>): void {
    this.#runner.it(name, () => this.#run(body));
  }

  /** A test of stores that outlive their handle. */
  testDurable(name: string, body: (fresh: TestStore) => Promise<void>): void {
    if (this.isReopenable) this.test(name, body);
  }

  /** A test with two handles at once. A store that does not allow them must refuse the second one. */
  testShared(name: string, body: (fresh: TestStore, second: Store) => Promise<void>): void {
    this.testDurable(name, async (fresh) => {
      if (fresh.store.capabilities.shared) await body(fresh, await fresh.reopen());
      else await rejectsWith("BUSY", fresh.reopen());
    });
  }

  /** A test of what becomes of damaged data. */
  testDamage(name: string, body: (fresh: DamageableTestStore) => Promise<void>): void {
    const damage = this.#harness.damage?.bind(this.#harness);
    if (!damage) return;
    this.test(name, (fresh) => body({ ...fresh, damage: (target, how) => damage(fresh.location, target, how) }));
  }

  async #run(body: (fresh: TestStore) => Promise<void>): Promise<void> {
    const underTest = await this.#harness.setup();
    const { store, location = "" } = underTest;
    const handles = [store];
    const reopen = async (): Promise<Store> => {
      if (!this.#harness.reopen) throw new Error("This test needs a harness with reopen().");
      const handle = await this.#harness.reopen(location);
      handles.push(handle);
      return handle;
    };
    try {
      await body({ store, location, reopen });
    } finally {
      await Promise.all(handles.map((handle) => handle.close()));
      await underTest.teardown();
    }
  }
}
