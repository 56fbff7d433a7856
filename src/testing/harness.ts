/**
 * What the conformance kit needs: a test runner, a way to make a fresh store, and, where the store has more to promise
 * (it is durable, several processes may share it), the means to try that.
 *
 * The kit never asks which store it tests. What a store can do is in its `capabilities`; what its harness cannot do,
 * the capabilities must not promise.
 */
import type { Store } from "../store/index.js";

/** The two functions of a test framework: those of vitest, node:test, jest and mocha fit as they are. */
export interface TestRunner {
  describe(name: string, body: () => void): unknown;
  it(name: string, body: () => Promise<void>): unknown;
}

/** How the kit gets the store that it tests. */
export interface StoreHarness {
  /** A fresh, empty store; called for every test. */
  setup(): Promise<StoreUnderTest>;

  /**
   * A further handle on what is at a location, as another process would open it: after the first handle was closed, and
   * also while it is open, which a store that is not `shared` refuses with `BUSY`. Every durable store has it, and no
   * other. The kit closes what it opened.
   */
  reopen?(location: string): Promise<Store>;

  /**
   * Damages something behind the store's back, as a failing disk would. Every durable store has it. It is called while
   * handles are open; what they read next must show the damage.
   */
  damage?(location: string, target: DamageTarget, how: Damage): Promise<void>;

  /** How to open a store in a process that is then killed. Every durable store has it, and no other. */
  readonly crash?: CrashHarness;
}

/** A store that a test has for itself. */
export interface StoreUnderTest {
  readonly store: Store;
  /**
   * Where it is, in whatever form the rest of the harness understands.
   * @default ""
   */
  readonly location?: string;
  /** Removes every trace. The kit has closed all its handles by then. */
  teardown(): Promise<void>;
}

/**
 * One stored thing: a record, an item's text, what an item points at, a blob. A store that keeps an item and its refs
 * together damages both for either.
 */
export type DamageTarget =
  | { readonly kind: "record"; readonly key: string }
  | { readonly kind: "item" | "refs"; readonly tape: string; readonly item: number }
  | { readonly kind: "blob"; readonly hash: string };

/** Change one bit; cut off the second half; make it disappear. Nothing else is touched, and no checksum is mended. */
export type Damage = "flip" | "truncate" | "remove";

/** How the store is opened in a child process that dies in the middle of a write. */
export interface CrashHarness {
  /** The URL of a module that exports `openForCrash`: an {@link OpenForCrash}. Plain Node loads it. */
  readonly module: string;
  /** The points of a write at which the process is killed. Without any, it is only killed at arbitrary moments. */
  readonly points: readonly string[];
}

/** Opens the store at a location, and has it call `probe` at each of its points, synchronously. */
export type OpenForCrash = (location: string, probe: (point: string) => void) => Promise<Store>;
