/**
 * The requirements of the conformance kit: a test runner, a function that creates an empty store, and, for durable and shared
 * stores, functions that reopen, damage and crash them.
 *
 * The kit does not depend on the kind of the store. It relies on `capabilities`, and a store must not have a capability that
 * its harness cannot test.
 */
import type { Store } from "../store/index.js";

/** The two functions of a test framework. Those of vitest, node:test, jest and mocha can be passed unchanged. */
export interface TestRunner {
  describe(name: string, body: () => void): unknown;
  it(name: string, body: () => Promise<void>): unknown;
}

/** Creates, reopens, damages and crashes the store under test. */
export interface StoreHarness {
  /** Creates an empty store. Called for every test. */
  setup(): Promise<StoreUnderTest>;

  /**
   * Opens another handle on the store at a location, as another process would: after the first handle is closed, and also
   * while it is open. A store that is not `shared` must reject the latter with `BUSY`. Required for durable stores, and not
   * allowed for others. The kit closes the handle.
   */
  reopen?(location: string): Promise<Store>;

  /**
   * Damages stored data without the knowledge of the store, as a failing disk would. Required for durable stores. Called while
   * handles are open; their next read must see the damage.
   */
  damage?(location: string, target: DamageTarget, how: Damage): Promise<void>;

  /** Opens the store in a process that is killed. Required for durable stores, and not allowed for others. */
  readonly crash?: CrashHarness;
}

/** The store of one test. */
export interface StoreUnderTest {
  readonly store: Store;
  /**
   * The location of the store, which the kit passes to the other functions of the harness.
   * @default ""
   */
  readonly location?: string;
  /** Removes the store and its files. Called after the kit has closed all handles. */
  teardown(): Promise<void>;
}

/**
 * The data to damage: a record, the JSON of an item, the refs of an item, or a blob. A store that keeps the JSON and the refs of
 * an item together damages both.
 */
export type DamageTarget =
  | { readonly kind: "record"; readonly key: string }
  | { readonly kind: "item" | "refs"; readonly tape: string; readonly item: number }
  | { readonly kind: "blob"; readonly hash: string };

/** Change one bit, cut off the second half, or remove the data. Nothing else is changed, in particular no checksum. */
export type Damage = "flip" | "truncate" | "remove";

/** Opens the store in a child process that is killed during a write. */
export interface CrashHarness {
  /** The URL of a module that exports `openForCrash`, an {@link OpenForCrash}. Node must be able to load it without a build step. */
  readonly module: string;
  /** The write points at which the process is killed. If empty, it is killed only at arbitrary moments. */
  readonly points: readonly string[];
}

/** Opens the store at a location. The store must call `probe` synchronously at each of its write points. */
export type OpenForCrash = (location: string, probe: (point: string) => void) => Promise<Store>;
