/** Defines the tests of the kit: each gets an empty store, which is closed and removed afterwards. */
import type { Store } from "../store/index.js";
import { rejectsWith } from "./assertions.js";
import type { CrashHarness, Damage, DamageTarget, StoreHarness, TestRunner } from "./harness.js";

/** The store of one test. */
export interface TestStore {
  readonly store: Store;
  readonly location: string;
  /** Opens another handle on the same data. It is closed after the test. For durable stores only. */
  readonly reopen: () => Promise<Store>;
}

/** The store of one test whose data can be damaged. */
export interface DamageableTestStore extends TestStore {
  readonly damage: (target: DamageTarget, how: Damage) => Promise<void>;
}

/** The tests of one harness. Tests that the harness does not support are not defined. */
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

  test(name: string, body: (testStore: TestStore) => Promise<void>): void {
    this.#runner.it(name, () => this.#run(body));
  }

  /** Defines a test for durable stores. */
  testDurable(name: string, body: (testStore: TestStore) => Promise<void>): void {
    if (this.isReopenable) this.test(name, body);
  }

  /** Defines a test with two open handles. A store that is not shared must reject the second one with `BUSY`. */
  testShared(name: string, body: (testStore: TestStore, second: Store) => Promise<void>): void {
    this.testDurable(name, async (testStore) => {
      if (testStore.store.capabilities.shared) await body(testStore, await testStore.reopen());
      else await rejectsWith("BUSY", testStore.reopen());
    });
  }

  /** Defines a test with damaged data. */
  testDamage(name: string, body: (testStore: DamageableTestStore) => Promise<void>): void {
    const damage = this.#harness.damage?.bind(this.#harness);
    if (!damage) return;
    this.test(name, (testStore) =>
      body({ ...testStore, damage: (target, how) => damage(testStore.location, target, how) }),
    );
  }

  async #run(body: (testStore: TestStore) => Promise<void>): Promise<void> {
    const setup = await this.#harness.setup();
    const { store, location = "" } = setup;
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
      await setup.teardown();
    }
  }
}
